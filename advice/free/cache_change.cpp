#include <algorithm>
#include <string>
#include <utility>
#include <vector>

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

// Whether all profiles know what attention over such a cache takes.
bool has_rates(const std::vector<model::DeviceProfile>& profiles, model::CacheFormat format) {
  return std::ranges::all_of(profiles, [&](const model::DeviceProfile& profile) {
    return profile.rate_of(model::TaskKind::attend, model::rated_as(format)) != nullptr;
  });
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
    if (question.of_file && !has_rates(offer.ask.request.profiles, *format))
      offer.obstacle =
          "the plan file keeps the measured rates of its own formats alone; plan with "
          "'--cache-type " +
          name + "', and compare";
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
