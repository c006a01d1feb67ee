#include "model/predict/factor_draws.hpp"

#include <array>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <random>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::model {
namespace {

constexpr std::size_t kDrawn = FactorDraws::kCount - 1;

using Normal = std::array<double, kDrawn>;

// The normal numbers in the middle of equally probable intervals, ascending; exactly symmetric.
Normal quantiles() {
  Normal z{};
  for (std::size_t i = 0; i < kDrawn / 2; ++i) {
    const double p = (static_cast<double>(i) + 0.5) / static_cast<double>(kDrawn);
    z[i] = std::numbers::sqrt2 * boost::math::erf_inv(2.0 * p - 1.0);
    z[kDrawn - 1 - i] = -z[i];
  }
  return z;
}

// Fisher and Yates. The standard library's shuffle may differ from one to the next.
Normal shuffled(Normal z, std::mt19937_64& random) {
  for (std::size_t i = kDrawn - 1; i > 0; --i) std::swap(z[i], z[random() % (i + 1)]);
  return z;
}

struct OfProfile {
  Normal systematic{};
  std::array<Normal, kTaskKinds> kind{};
};

}  // namespace

FactorDraws::FactorDraws(std::span<const DeviceDeviation> deviations,
                         std::span<const std::string> profiles, std::uint64_t seed)
    : factors_(deviations.size() * kTaskKinds * kCount, 1.0) {
  require(deviations.size() == profiles.size(), "one profile a device");
  std::mt19937_64 random(seed);
  const Normal z = quantiles();
  std::map<std::string, OfProfile> of_profiles;
  double* out = factors_.data();
  for (std::size_t d = 0; d < deviations.size(); ++d) {
    const DeviceDeviation& deviation = deviations[d];
    const auto [found, is_new] = of_profiles.try_emplace(profiles[d]);
    OfProfile& profile = found->second;
    if (is_new) {
      profile.systematic = shuffled(z, random);
      for (Normal& kind : profile.kind) kind = shuffled(z, random);
    }
    const Normal drift = shuffled(z, random);
    for (std::size_t k = 0; k < kTaskKinds; ++k, out += kCount) {
      for (std::size_t i = 0; i < kDrawn; ++i) {
        out[i + 1] = std::exp(deviation.systematic * profile.systematic[i] +
                              deviation.drift * drift[i] + deviation.kind[k] * profile.kind[k][i]);
      }
    }
  }
}

std::span<const double> FactorDraws::of(DeviceIndex device, TaskKind kind) const {
  const std::size_t at =
      (static_cast<std::size_t>(device) * kTaskKinds + static_cast<std::size_t>(kind)) * kCount;
  require(device >= 0 && at < factors_.size(), "factor draws: a device that is none");
  return std::span(factors_).subspan(at, kCount);
}

}  // namespace tandem::model
