#include <string>
#include <utility>

#include "advice/free/free_change.hpp"
#include "planner/serving/policy/policy.hpp"

namespace tandem::study {
namespace {

std::vector<Offer> chunks(const FreeQuestion& question) {
  const Ask& ask = question.ask;
  const bool searched = ask.served ? ask.best_chunk : ask.prompt.best;
  if (searched || reads_whole(ask.request)) return {};
  // A policy that has a budget needs a number.
  if (ask.served && !planner::serves(*ask.served->policy, 0)) return {};
  Offer offer{.what = "prompts in the best chunks",
              .price = Price::nothing,
              .price_text = "prompts are read in the chunks that are best",
              .ask = ask};
  offer.ask.prompt.best = true;
  offer.ask.best_chunk = ask.served.has_value();
  offer.ask.set("chunk", "auto");
  return {std::move(offer)};
}

}  // namespace

const FreeChangeKind& chunks_change() {
  static constexpr FreeChangeKind kind{.name = "chunks", .offers = chunks};
  return kind;
}

}  // namespace tandem::study
