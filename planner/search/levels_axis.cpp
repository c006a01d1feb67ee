#include <string>

#include "planner/search/axes.hpp"
#include "planner/search/objective.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

// A plan with levels serves one request, so they must save this part of the time.
constexpr double kSavesEnough = 1.0 - 1e-3;

bool levels_open(const Draft& draft) {
  const Request& request = draft.request;
  return request.open_axes.levels && !request.sparse && !request.gather_weights &&
         request.cluster.size() > 1 && request.window.blocks.value_or(0) == 0 &&
         request.capacity.sequences == 0 &&
         find_strategy(request.strategy).sharding.exchanges_rows();
}

void walk_levels(const Draft& draft, Alternatives& all) {
  Draft next = draft;
  next.request.open_axes.levels = false;
  const Request& request = next.request;
  all.compare_by([&](const Plan& plan) {
    const double seconds = predicted_time(plan, request.objective, request.evaluate);
    return plan.sparse ? seconds / kSavesEnough : seconds;
  });
  all.offer("none", next);
  if (all.best() == nullptr || all.best()->streams()) return;
  next.request.sparse = SparseRequest{.levels = 2, .tiles = {}};
  next.request.tiles.reset();
  all.offer("2, nothing dropped", next);
}

}  // namespace

const Axis& levels_axis() {
  static constexpr Axis axis{.name = "levels", .applies = levels_open, .walk = walk_levels};
  return axis;
}

}  // namespace tandem::planner
