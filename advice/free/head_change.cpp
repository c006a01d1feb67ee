#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "advice/free/free_change.hpp"
#include "planner/search/request_checks.hpp"
#include "planner/strategy/common/head.hpp"

namespace tandem::study {
namespace {

// Nothing if the plan of `ask` cannot split its head.
std::optional<Offer> split(Ask ask, const std::string& what) {
  planner::Request& request = ask.request;
  request.head = planner::HeadPlacement::split;
  if (!planner::head_obstacle(request).empty()) return std::nullopt;
  ask.set("head", "split");
  return Offer{.what = what,
               .price = Price::privacy,
               .price_text = "the other devices compute logits, so they see the tokens",
               .ask = std::move(ask)};
}

// By the plan's strategy, and by the best of the others that can.
std::vector<Offer> heads(const FreeQuestion& question) {
  if (planner::splits_head(*question.plan)) return {};
  std::vector<Offer> offers;
  if (auto own = split(question.ask, "the LM head split")) offers.push_back(*std::move(own));
  for (const Ask& other : question.others) {
    auto offer = split(other, "the LM head split with strategy " + other.request.strategy);
    if (!offer) continue;
    offers.push_back(*std::move(offer));
    break;
  }
  return offers;
}

}  // namespace

const FreeChangeKind& head_change() {
  static constexpr FreeChangeKind kind{.name = "head", .offers = heads};
  return kind;
}

}  // namespace tandem::study
