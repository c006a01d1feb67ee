#include <string>

#include "planner/search/axes.hpp"
#include "planner/search/objective.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

bool moves_open(const Draft& draft) {
  const Request& request = draft.request;
  const Sharding& sharding = find_strategy(request.strategy).sharding;
  // Where several requests are served, only queries move.
  return request.open_axes.moves && request.workload.steps() > 1 &&
         request.capacity.sequences == 0 &&
         (sharding.splits_positions() || (sharding.measures_losses() && request.sparse));
}

void walk_moves(const Draft& draft, Alternatives& all) {
  Draft next = draft;
  next.request.open_axes.moves = false;
  const Request& request = next.request;
  all.compare_by(
      [&](const Plan& plan) { return predicted_time(plan, request.objective, request.evaluate); });
  for (const DecodeMoves moves : find_strategy(request.strategy).moves()) {
    next.request.decode_moves = moves;
    all.offer(std::string(to_string(moves)), next);
  }
}

}  // namespace

const Axis& moves_axis() {
  static constexpr Axis axis{
      .name = "what travels for new tokens", .applies = moves_open, .walk = walk_moves};
  return axis;
}

}  // namespace tandem::planner
