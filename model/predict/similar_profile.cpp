#include "model/predict/similar_profile.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

#include "model/predict/cost_model.hpp"

namespace tandem::model {
namespace {

constexpr std::string_view kSimilar = "similar to ";

// A guess: half of all machines of a make are taken to be within 20% of it.
constexpr double kSimilarDrift = 0.30;
// Of what is nominal in it.
constexpr double kGuessed = 0.50;

double roofline(const KindRate& rate, double intensity) {
  return task_seconds({.points = rate.points}, 1.0, intensity);
}

// `rate` of the device, nominal until now, by the reference's rates.
void imitate(const KindRate& measured, const KindRate& of_reference, KindRate& rate) {
  if (measured.points.empty() || rate.points.empty() || of_reference.points.empty()) return;
  KindRate similar = measured;
  for (RatePoint& point : similar.points) {
    const double stated = roofline(of_reference, point.intensity);
    if (stated <= 0.0) continue;
    const double factor = roofline(rate, point.intensity) / stated;
    point.seconds_per_byte *= factor;
    // Rows are computing, which bounds the most intense of the points.
    if (&point == &similar.points.back()) similar.row_s *= factor;
  }
  rate = std::move(similar);
}

}  // namespace

DeviceProfile similar_profile(const Device& device, const ReferenceProcessor& reference) {
  const DeviceProfile stated = nominal_profile(reference.stated);
  const DeviceProfile& measured = reference.profile;
  DeviceProfile profile = nominal_profile(device);
  profile.source = std::string(kSimilar) + reference.name;
  profile.threads = static_cast<int>(device.cores);
  profile.kernels = measured.kernels;
  profile.inlined = measured.inlined;
  profile.drift = kSimilarDrift;
  for (std::size_t k = 0; k < profile.rate.size(); ++k)
    imitate(measured.rate[k], stated.rate[k], profile.rate[k]);
  // A message's cost beyond its link is no part of the roofline.
  constexpr auto kTransfer = static_cast<std::size_t>(TaskKind::transfer);
  profile.rate[kTransfer] = measured.rate[kTransfer];
  for (FormatRates& rates : profile.formats) {
    const auto known = std::ranges::find(measured.formats, rates.format, &FormatRates::format);
    const auto nominal = std::ranges::find(stated.formats, rates.format, &FormatRates::format);
    for (std::size_t k = 0; k < rates.rate.size(); ++k) {
      if (known != measured.formats.end())
        imitate(known->rate[k], nominal->rate[k], rates.rate[k]);
      else if (!rates.rate[k].points.empty())
        rates.rate[k].error = RateError{.fit = kGuessed};
    }
  }
  for (std::size_t i = 0; i < profile.caches.size(); ++i) {
    CacheRates& rates = profile.caches[i];
    const CacheRates& nominal = stated.caches[i];
    const auto known = std::ranges::find(measured.caches, rates.format, &CacheRates::format);
    if (known == measured.caches.end()) continue;
    imitate(known->attend, nominal.attend, rates.attend);
    if (known->score) imitate(*known->score, *nominal.score, *rates.score);
  }
  return profile;
}

bool is_similar(const DeviceProfile& profile) { return profile.source.starts_with(kSimilar); }

}  // namespace tandem::model
