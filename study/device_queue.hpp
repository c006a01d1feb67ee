#pragma once

// Requests that wait for devices.

#include <cstddef>
#include <span>
#include <vector>

namespace tandem::study {

// What a request takes: so many devices at once, for so long.
struct DeviceJob {
  double arrival_s = 0.0;
  std::size_t devices = 1;
  double service_s = 0.0;
};

// Returns the seconds that each of `jobs`, ascending by arrival, waits for devices of which there
// are `devices`, all alike. First come, first served, also where a later one would find enough:
//   start_i = max(arrival_i, start_{i-1}, time at which devices_i of them are free)
// Of one device that is Lindley's recursion. Throws Error for a job of no devices or more than
// there are, of a service that is negative or not finite, and out of order.
[[nodiscard]] std::vector<double> waits_for_devices(std::span<const DeviceJob> jobs,
                                                    std::size_t devices);

}  // namespace tandem::study
