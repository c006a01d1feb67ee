#include "model/predict/device_share.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::model {

std::int64_t cores_of(const DeviceShare& share) {
  constexpr double kRounding = 1e-9;  // 0.29 * 100 is 28.999999999999996
  const double cores = share.share * static_cast<double>(share.cores);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(cores + kRounding)));
}

Device with_share(Device whole, const DeviceShare& share) {
  require(share.share > 0.0 && share.share <= 1.0, "with_share: a share in (0, 1]");
  if (share.share == 1.0) return whole;
  whole.memory = Bytes{share.share * whole.memory.value()};
  const std::int64_t cores = cores_of(share);
  if (cores == share.cores) return whole;
  const double part = static_cast<double>(cores) / static_cast<double>(share.cores);
  whole.cores = cores;
  whole.flop_rate = whole.flop_rate * part;
  whole.memory_bandwidth = whole.memory_bandwidth * part;
  if (whole.slowdown != 1.0) whole.slowdown /= part;
  return whole;
}

DeviceProfile with_share(std::span<const DeviceProfile> measured, const DeviceShare& share) {
  require(!measured.empty(), "with_share: a measured profile");
  const auto threads_of = [&](const DeviceProfile& profile) {
    return profile.threads > 0 ? static_cast<std::int64_t>(profile.threads) : share.cores;
  };
  const std::int64_t wanted = cores_of(share);
  const DeviceProfile* best = nullptr;
  for (const DeviceProfile& profile : measured) {
    const std::int64_t threads = threads_of(profile);
    const std::int64_t known = best != nullptr ? threads_of(*best) : 0;
    const bool is_better = known > wanted ? threads < known : threads > known && threads <= wanted;
    if (best == nullptr || is_better) best = &profile;
  }
  const std::int64_t threads = threads_of(*best);
  if (threads <= wanted) return *best;
  DeviceProfile profile = slowed(*best, static_cast<double>(threads) / static_cast<double>(wanted));
  profile.threads = static_cast<int>(wanted);
  return profile;
}

double parse_share(const std::string& text, const std::string& subject) {
  double share = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error != std::errc{} || end != text.data() + text.size() || !(share > 0.0) || share > 1.0)
    throw Error(subject + ": '" + one_line(text, 40) +
                "', expected a number above 0 and at most 1, as 0.5; correct it");
  return share;
}

}  // namespace tandem::model
