#include "planner/strategy/sparse/csps_level_tasks.hpp"

#include "planner/strategy/common/rows.hpp"

namespace tandem::planner {

using model::Range;
using model::TaskIndex;

std::vector<Range> LevelTasks::pieces(const KeptPart& part, std::size_t place) const {
  const Range rows = of.queries(part, place);
  std::vector<Range> cut;
  std::int32_t begin = rows.begin;
  for (const std::int32_t size : equal_parts(rows.size(), tiles)) {
    if (size > 0) cut.push_back({begin, begin + size});
    begin += size;
  }
  return cut;
}

std::vector<TaskIndex> LevelTasks::arrivals(Range places, std::size_t at) const {
  const std::int32_t first = places.begin;
  if (of.parts().size() > 1) places = of.group(static_cast<std::size_t>(first));
  std::vector<TaskIndex> after;
  const auto wait = [&](std::int32_t place) {
    const TaskIndex last = arrived[static_cast<std::size_t>(place)][at].last;
    if (last >= 0) after.push_back(last);
  };
  wait(first);
  for (std::int32_t k = places.begin; k < places.end; ++k) {
    if (k != first) wait(k);
  }
  return after;
}

std::vector<TaskIndex> LevelTasks::arrivals(std::size_t asker, std::size_t piece,
                                            std::size_t at) const {
  const bool several = of.parts().size() > 1;
  const Range others = several ? of.group(asker) : of.asked_places(asker);
  std::vector<TaskIndex> after;
  const auto wait = [&](TaskIndex message) {
    if (message >= 0) after.push_back(message);
  };
  const Arrived& asked = arrived[asker][at];
  if (asker != at) wait(several ? asked.last : asked.pieces.at(piece));
  for (std::int32_t k = others.begin; k < others.end; ++k) {
    if (static_cast<std::size_t>(k) == asker) continue;
    const Arrived& from = arrived[static_cast<std::size_t>(k)][at];
    wait(several ? from.last : from.keys);
  }
  return after;
}

}  // namespace tandem::planner
