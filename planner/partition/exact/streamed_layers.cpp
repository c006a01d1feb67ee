#include "planner/partition/exact/streamed_layers.hpp"

#include <algorithm>
#include <numeric>

#include "planner/partition/exact/time_order.hpp"

namespace tandem::planner {
namespace {

// Returns the cost of `count` further layers on a device that has `has`.
double cost_of_more(const StreamingDevice& device, std::int64_t has, std::int64_t count) {
  if (has + count > device.most) return kNever;
  const auto streamed = [&](std::int64_t n) {
    return static_cast<double>(std::max<std::int64_t>(0, n - device.resident));
  };
  return static_cast<double>(count) * device.layer_s +
         (streamed(has + count) - streamed(has)) * device.load_s;
}

}  // namespace

std::optional<std::vector<std::int64_t>> halda_layers(std::span<const StreamingDevice> devices,
                                                      std::int64_t layers, std::int64_t rounds) {
  const auto count = static_cast<std::int64_t>(devices.size());
  if (layers % rounds != 0 || layers < rounds * count) return std::nullopt;
  std::vector<std::int64_t> given(devices.size(), rounds);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (cost_of_more(devices[d], 0, rounds) == kNever) return std::nullopt;
  }
  for (std::int64_t missing = layers - rounds * count; missing > 0; missing -= rounds) {
    std::size_t best = 0;
    double least = kNever;
    for (std::size_t d = 0; d < devices.size(); ++d) {
      const double cost = cost_of_more(devices[d], given[d], rounds);
      if (cost >= least) continue;
      least = cost;
      best = d;
    }
    if (least == kNever) return std::nullopt;
    given[best] += rounds;
  }
  return given;
}

std::optional<std::vector<std::int64_t>> overlapped_layers(std::span<const StreamingDevice> devices,
                                                           std::int64_t layers) {
  std::vector<std::size_t> fastest(devices.size());
  std::iota(fastest.begin(), fastest.end(), std::size_t{0});
  std::stable_sort(fastest.begin(), fastest.end(), [&](std::size_t a, std::size_t b) {
    return devices[a].layer_s < devices[b].layer_s;
  });
  std::vector<double> times{0.0};
  for (const StreamingDevice& device : devices) {
    for (std::int64_t n = 1; n <= std::min(layers, device.most) - device.resident; ++n)
      times.push_back(static_cast<double>(n) * device.load_s);
  }
  std::optional<std::vector<std::int64_t>> best;
  double least = kNever;
  for (const double disk_s : times) {
    std::vector<std::int64_t> given(devices.size(), 1);
    std::int64_t missing = layers - static_cast<std::int64_t>(devices.size());
    double computing_s = 0.0;
    bool fits = missing >= 0;
    for (const std::size_t d : fastest) {
      const StreamingDevice& device = devices[d];
      // A disk of zero time allows any number.
      const double room = device.load_s > 0.0 ? disk_s * (1.0 + 1e-12) / device.load_s : 1e18;
      const std::int64_t most =
          room >= static_cast<double>(device.most - device.resident)
              ? device.most
              : std::min(device.most, device.resident + static_cast<std::int64_t>(room));
      fits = fits && most >= 1;
      const std::int64_t more =
          std::clamp<std::int64_t>(missing, 0, std::max<std::int64_t>(0, most - 1));
      given[d] += more;
      missing -= more;
      computing_s += static_cast<double>(given[d]) * device.layer_s;
    }
    const double seconds = std::max(computing_s, disk_s);
    if (!fits || missing > 0 || seconds >= least) continue;
    least = seconds;
    best = std::move(given);
  }
  return best;
}

}  // namespace tandem::planner
