#include "study/steady_state/residency.hpp"

#include <algorithm>
#include <utility>

#include "model/base/error.hpp"
#include "study/steady_state/recurrence.hpp"

namespace tandem::study {

std::int64_t window_peak(const StreamingDevice& device, const std::vector<std::int64_t>& sizes) {
  require(sizes.size() == device.blocks.size(), "window_peak: a size is missing");
  std::int64_t retained = 0;
  std::vector<std::int64_t> streamed;
  for (std::size_t b = 0; b < sizes.size(); ++b) {
    if (device.blocks[b].residence == Residence::retained) retained += sizes[b];
    if (device.blocks[b].residence == Residence::streamed) streamed.push_back(sizes[b]);
  }
  const std::size_t count = streamed.size();
  const auto window =
      static_cast<std::size_t>(std::min(device.window, static_cast<std::int64_t>(count)));
  std::int64_t largest = 0;
  for (std::size_t first = 0; first < count; ++first) {
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < window; ++k) sum += streamed[(first + k) % count];
    largest = std::max(largest, sum);
  }
  return retained + largest;
}

std::int64_t simulated_peak(const MemorySchedule& schedule, std::size_t index,
                            const std::vector<std::int64_t>& sizes, std::int64_t tokens) {
  require(sizes.size() == schedule.blocks(), "simulated_peak: a size is missing");
  const StreamingDevice& device = schedule.devices.at(index);
  std::vector<std::pair<Ticks, std::int64_t>> changes;
  Recurrence run(schedule);
  for (std::int64_t token = 0; token < tokens; ++token) {
    run.token([&](const BlockEvent& event) {
      if (event.device != index || !event.loaded) return;
      changes.emplace_back(event.load_start, sizes[event.block]);
      changes.emplace_back(event.release, -sizes[event.block]);
    });
  }
  // At the same time memory is freed before it is taken: the load waited for it.
  std::sort(changes.begin(), changes.end());
  std::int64_t now = 0;
  for (std::size_t b = 0; b < sizes.size(); ++b)
    if (device.blocks[b].residence == Residence::retained) now += sizes[b];
  std::int64_t peak = now;
  for (const auto& [time, change] : changes) peak = std::max(peak, now += change);
  return peak;
}

}  // namespace tandem::study
