#include <string>

#include "planner/search/axes.hpp"
#include "planner/search/objective.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

bool usual_sums_open(const Draft& draft) {
  const Request& request = draft.request;
  return request.open_axes.sums && find_strategy(request.strategy).sharding.has_collective();
}

void walk_usual_sums(const Draft& draft, Alternatives& all) {
  Draft next = draft;
  next.request.open_axes.sums = false;
  const Request& request = next.request;
  all.compare_by(
      [&](const Plan& plan) { return predicted_time(plan, request.objective, request.evaluate); });
  all.offer(request.allreduce.value_or(find_strategy(request.strategy).allreduce), next);
  // Shares that stream are sought at length: not again where they were of no use.
  if (!request.window.blocks && all.best() != nullptr && !all.best()->streams())
    next.request.window = {.blocks = 0, .retain = {}};
  next.request.allreduce = kAutoAllreduce;
  all.offer(std::string(kAutoAllreduce), next);
}

}  // namespace

const Axis& usual_sums_axis() {
  static constexpr Axis axis{
      .name = "usual all-reduce", .applies = usual_sums_open, .walk = walk_usual_sums};
  return axis;
}

}  // namespace tandem::planner
