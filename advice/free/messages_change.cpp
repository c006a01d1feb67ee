#include <array>
#include <string>
#include <utility>

#include "advice/free/free_change.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {
namespace {

using model::WireFormat;

// Of a long row, which a scale of q8_0 is a small part of.
std::int64_t width(WireFormat format) { return model::wire_row_bytes(format, 4096); }

std::vector<Offer> messages(const FreeQuestion& question) {
  std::vector<Offer> offers;
  const planner::Plan& plan = *question.plan;
  if (planner::sharding_of(plan).is_local() || plan.cluster.size() < 2) return offers;
  // Messages in f16 are as long as in bf16, which holds numbers of any size.
  for (const WireFormat format : {WireFormat::bf16, WireFormat::q8_0}) {
    if (width(format) >= width(plan.wire)) continue;
    const std::string name(to_string(format));
    Offer offer{
        .what = "messages in " + name,
        .price = Price::quality,
        .price_text = "numbers that travel are rounded to " +
                      std::string(format == WireFormat::q8_0 ? "8 bits" : "8 significant bits") +
                      ", " + price_words(question.prices, format),
        .ask = question.ask};
    offer.ask.request.wire = format;
    offer.ask.request.open.wire = false;
    offer.ask.set("wire-type", name);
    offers.push_back(std::move(offer));
  }
  return offers;
}

}  // namespace

const FreeChangeKind& messages_change() {
  static constexpr FreeChangeKind kind{.name = "messages", .offers = messages};
  return kind;
}

}  // namespace tandem::study
