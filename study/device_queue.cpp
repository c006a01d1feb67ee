#include "study/device_queue.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "model/base/error.hpp"

namespace tandem::study {

std::vector<double> waits_for_devices(std::span<const DeviceJob> jobs, std::size_t devices) {
  std::vector<double> free_s(devices, -std::numeric_limits<double>::infinity());  // ascending
  std::vector<double> waits;
  double before_s = -std::numeric_limits<double>::infinity();
  double arrival_s = before_s;
  for (const DeviceJob& job : jobs) {
    const std::string name = "device queue: job " + std::to_string(waits.size());
    if (job.devices == 0 || job.devices > devices)
      throw Error(name + " takes " + std::to_string(job.devices) + " devices, expected 1 to " +
                  std::to_string(devices));
    if (!std::isfinite(job.service_s) || job.service_s < 0.0)
      throw Error(name + " takes " + std::to_string(job.service_s) +
                  " s, expected 0 or more, finite");
    if (!std::isfinite(job.arrival_s) || job.arrival_s < arrival_s)
      throw Error(name + " arrives at " + std::to_string(job.arrival_s) +
                  " s, expected jobs in the order of their arrival");
    arrival_s = job.arrival_s;
    before_s = std::max({job.arrival_s, before_s, free_s[job.devices - 1]});
    waits.push_back(before_s - job.arrival_s);
    // The first that are free, until this one ends.
    const auto end = free_s.begin() + static_cast<std::ptrdiff_t>(job.devices);
    std::fill(free_s.begin(), end, before_s + job.service_s);
    std::sort(free_s.begin(), free_s.end());
  }
  return waits;
}

}  // namespace tandem::study
