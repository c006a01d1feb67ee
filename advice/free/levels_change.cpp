#include <utility>

#include "advice/free/free_change.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {
namespace {

std::vector<Offer> levels(const FreeQuestion& question) {
  const planner::Plan& plan = *question.plan;
  const planner::Request& request = question.ask.request;
  if (plan.cluster.size() < 2 || plan.sparse || plan.streams() || question.ask.served ||
      request.open_axes.levels || request.gather_weights || request.window.blocks.value_or(0) > 0 ||
      !planner::sharding_of(plan).exchanges_rows())
    return {};
  Offer offer{.what = "two levels, nothing dropped",
              .price = Price::generality,
              .price_text = planner::sharding_of(plan).measures_losses()
                                ? "the plan serves one request, whose prompt has this length"
                                : "the plan serves one request",
              .ask = question.ask};
  planner::Request& changed = offer.ask.request;
  changed.sparse = planner::SparseRequest{.levels = 2};
  changed.tiles.reset();
  changed.window = {.blocks = 0, .retain = {}};
  changed.open_axes.moves = true;
  offer.ask.prompt = {};
  offer.ask.set("levels", "2");
  offer.ask.leave_out({"tiles", "chunk", "in-flight"});
  // Queries and results travel, not sums.
  if (planner::sharding_of(plan).measures_losses()) offer.ask.leave_out({"allreduce"});
  return {std::move(offer)};
}

}  // namespace

const FreeChangeKind& levels_change() {
  static constexpr FreeChangeKind kind{.name = "levels", .offers = levels};
  return kind;
}

}  // namespace tandem::study
