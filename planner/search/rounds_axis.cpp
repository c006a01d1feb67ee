#include <string>

#include "planner/search/axes.hpp"

namespace tandem::planner {
namespace {

bool rounds_open(const Draft& draft) { return !draft.request.rounds; }

void walk_rounds(const Draft& draft, Alternatives& all) {
  const Request& request = draft.request;
  all.compare_by([](const Plan& plan) { return predicted_request_time(plan); });
  const auto offer = [&](std::int32_t rounds) {
    Draft next = draft;
    next.request.rounds = rounds;
    all.offer(std::to_string(rounds), next);
  };
  offer(1);
  if (request.capacity.steps > 1) return;
  if (all.best() != nullptr && !all.best()->streams()) return;
  // Numbers near one another differ little, so those tried grow.
  for (const std::int32_t rounds : {2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64}) {
    if (std::int64_t{rounds} * request.cluster.size() > request.model.layers) break;
    if (request.partition == kHaldaPartition && request.model.layers % rounds != 0) continue;
    offer(rounds);
  }
}

}  // namespace

const Axis& rounds_axis() {
  static constexpr Axis axis{.name = "rounds", .applies = rounds_open, .walk = walk_rounds};
  return axis;
}

}  // namespace tandem::planner
