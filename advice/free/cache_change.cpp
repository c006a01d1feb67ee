#include <algorithm>
#include <string>
#include <utility>

#include "advice/free/free_change.hpp"
#include "model/base/error.hpp"

namespace tandem::study {
namespace {

bool has_whole_blocks(model::Transformer transformer, model::CacheFormat format) {
  transformer.cache = format;
  try {
    transformer.validate();
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<Offer> caches(const FreeQuestion& question) {
  std::vector<Offer> offers;
  const planner::Plan& plan = *question.plan;
  if (!plan.model.architecture().generates()) return offers;
  // kCacheFormats begins with the widest.
  auto format = std::ranges::find(model::kCacheFormats, plan.model.cache);
  if (format != model::kCacheFormats.end()) ++format;
  for (; format != model::kCacheFormats.end(); ++format) {
    if (!has_whole_blocks(plan.model, *format)) continue;
    const std::string name(to_string(*format));
    Offer offer{.what = "keys and values in " + name,
                .price = Price::quality,
                .price_text = "keys and values are rounded to " + name + ", " +
                              price_words(question.prices, *format),
                .ask = question.ask};
    offer.ask.request.model.cache = *format;
    offer.ask.request.open.cache = false;
    offer.ask.set("cache-type", name);
    offers.push_back(std::move(offer));
  }
  return offers;
}

}  // namespace

const FreeChangeKind& cache_change() {
  static constexpr FreeChangeKind kind{.name = "cache", .offers = caches};
  return kind;
}

}  // namespace tandem::study
