#pragma once

// Requests that queue for devices.

#include <cstddef>
#include <span>
#include <vector>

namespace tandem::study {

// The demand of a request: a number of devices at once, for a time.
struct DeviceJob {
  double arrival_s = 0.0;
  std::size_t devices = 1;
  double service_s = 0.0;
};

// Returns the seconds that each of `jobs`, ascending by arrival, waits for its devices among
// `devices` equal ones. First come, first served, even if a later job would find enough devices:
//   start_i = max(arrival_i, start_{i-1}, time at which devices_i of them are free)
// With one device this is Lindley's recursion. Throws Error for a job of no devices or more than
// there are, with a negative or infinite service time, or out of order.
[[nodiscard]] std::vector<double> waits_for_devices(std::span<const DeviceJob> jobs,
                                                    std::size_t devices);

}  // namespace tandem::study
