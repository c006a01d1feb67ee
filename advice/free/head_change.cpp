#include <utility>

#include "advice/free/free_change.hpp"
#include "planner/search/request_checks.hpp"
#include "planner/strategy/common/head.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {
namespace {

std::vector<Offer> heads(const FreeQuestion& question) {
  const planner::Plan& plan = *question.plan;
  if (plan.cluster.size() < 2 || planner::splits_head(plan) ||
      !planner::sharding_of(plan).may_split_head())
    return {};
  Offer offer{.what = "the LM head split",
              .price = Price::privacy,
              .price_text = "the other devices compute logits, so they see the tokens",
              .ask = question.ask};
  offer.ask.request.head = planner::HeadPlacement::split;
  offer.ask.set("head", "split");
  if (!planner::head_obstacle(offer.ask.request).empty()) return {};
  return {std::move(offer)};
}

}  // namespace

const FreeChangeKind& head_change() {
  static constexpr FreeChangeKind kind{.name = "head", .offers = heads};
  return kind;
}

}  // namespace tandem::study
