// Which all-reduce is the fastest, over size, latency, bandwidth and number of devices.

#include "study/experiment/allreduce_testbed.hpp"
#include "study/experiment/experiment.hpp"

namespace tandem::study {
namespace {

constexpr std::int32_t kDeviceCounts[] = {4, 6, 8, 32};
constexpr double kBandwidthsMbps[] = {50.0, 300.0, 1000.0};
constexpr double kLatenciesMs[] = {0.1, 1.0, 10.0};
constexpr std::int32_t kMessageKiB[] = {1, 8, 32, 128, 512, 2048, 8192};

std::string text(double value) {
  std::string digits = std::to_string(value);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits;
}

}  // namespace

ExperimentReport collectives_map(const Scenarios& /*scenarios*/, Progress& progress) {
  ExperimentReport report{.key_names = {"devices", "bandwidth_mbps", "link_latency_ms", "kib"},
                          .rows = {},
                          .remarks = {}};
  progress.expect(std::size(kDeviceCounts) * std::size(kBandwidthsMbps) * std::size(kLatenciesMs));
  for (const std::int32_t devices : kDeviceCounts) {
    for (const double mbps : kBandwidthsMbps) {
      for (const double latency_ms : kLatenciesMs) {
        const AllreduceTestbed testbed{.devices = devices,
                                       .link_latency = model::Seconds{latency_ms * 1e-3},
                                       .bandwidth = model::BytesPerSecond{mbps * 1e6 / 8.0}};
        for (const std::int32_t kib : kMessageKiB) {
          for (const std::string& allreduce : compared_allreduces()) {
            const model::Seconds time = simulated_allreduce(testbed, allreduce, kib * 256);
            report.rows.push_back({.keys = {std::to_string(devices), text(mbps), text(latency_ms),
                                            std::to_string(kib)},
                                   .quantity = allreduce + "_ms",
                                   .tandem = Reading::number(time.value() * 1e3)});
          }
        }
        progress.advance(1);
      }
    }
  }
  report.remarks.emplace_back(
      "by SimGrid; four links of the stated latency between two devices, full-duplex, each "
      "device's "
      "messages share its links");
  return report;
}

}  // namespace tandem::study
