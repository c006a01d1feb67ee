#include "sim/replay/replay_steps.hpp"

namespace tandem::sim {

using model::ActionIndex;

PreparedStep::PreparedStep(const model::TaskGraph& graph) : key(graph.structure()), program(graph) {
  const auto size = static_cast<std::size_t>(program.size());
  first.assign(size + 1, 0);
  for (ActionIndex i = 0; i < program.size(); ++i) {
    for (const ActionIndex d : program.dependencies(i)) ++first[static_cast<std::size_t>(d) + 1];
  }
  for (std::size_t i = 0; i < size; ++i) first[i + 1] += first[i];
  dependants.resize(first[size]);
  std::vector<std::size_t> next(first.begin(), first.end() - 1);
  for (ActionIndex i = 0; i < program.size(); ++i) {
    for (const ActionIndex d : program.dependencies(i)) {
      if (i >= program.epilogue() && d < program.epilogue()) ++opening;
      dependants[next[static_cast<std::size_t>(d)]++] = i;
    }
  }
  for (std::size_t m = 0; m < program.events().size(); ++m)
    events_of[program.events()[m]].push_back(m);
}

}  // namespace tandem::sim
