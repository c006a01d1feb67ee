#include "model/report/largest_deviation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace tandem::model {

double LaneDeviation::percent() const {
  const double difference = predicted_s - run_s;
  if (difference == 0.0) return 0.0;
  if (run_s == 0.0) return std::numeric_limits<double>::infinity();
  return 100.0 * difference / run_s;
}

std::optional<LaneDeviation> largest_deviation(const Result& predicted, const Result& run,
                                               double least_percent) {
  constexpr std::array<std::pair<LaneKind, double DeviceMetrics::*>, 3> kLanes{{
      {LaneKind::cpu, &DeviceMetrics::busy_cpu_s},
      {LaneKind::disk, &DeviceMetrics::busy_disk_s},
      {LaneKind::channel, &DeviceMetrics::busy_channel_s},
  }};
  std::optional<LaneDeviation> largest;
  double most_s = 0.0;
  for (const DeviceMetrics& device : run.devices) {
    const auto same = std::ranges::find(predicted.devices, device.name, &DeviceMetrics::name);
    if (same == predicted.devices.end()) continue;
    for (const auto& [lane, busy] : kLanes) {
      LaneDeviation deviation{
          .device = device.name, .lane = lane, .predicted_s = *same.*busy, .run_s = device.*busy};
      const double seconds = std::abs(deviation.predicted_s - deviation.run_s);
      // NaN of a device that was lost before it reported.
      if (!(seconds > most_s) || !(std::abs(deviation.percent()) > least_percent)) continue;
      most_s = seconds;
      largest = std::move(deviation);
    }
  }
  return largest;
}

}  // namespace tandem::model
