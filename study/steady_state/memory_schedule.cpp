#include "study/steady_state/memory_schedule.hpp"

#include <algorithm>

#include "model/base/error.hpp"

namespace tandem::study {

void validate(const MemorySchedule& schedule) {
  constexpr Ticks kMost = Ticks{1} << 53;
  require(!schedule.devices.empty() && schedule.blocks() > 0, "schedule: no device or no block");
  Ticks total = 0;
  const auto count = [&](Ticks time) {
    require(time >= 0 && time < kMost - total, "schedule: a time is negative or too large");
    total += time;
  };
  for (const Ticks time : schedule.reduce) count(time);
  for (const StreamingDevice& device : schedule.devices) {
    require(device.blocks.size() == schedule.blocks(), "schedule: a device misses blocks");
    require(device.window >= 1, "schedule: a window is below 1");
    for (const BlockTimes& block : device.blocks) {
      count(block.compute);
      count(block.load);
    }
  }
}

Ticks path_time(const MemorySchedule& schedule) {
  Ticks total = 0;
  for (std::size_t b = 0; b < schedule.blocks(); ++b) {
    Ticks slowest = 0;
    for (const StreamingDevice& device : schedule.devices)
      slowest = std::max(slowest, device.blocks[b].compute);
    total += slowest + schedule.reduce[b];
  }
  return total;
}

Ticks load_time(const StreamingDevice& device) {
  Ticks total = 0;
  for (const BlockTimes& block : device.blocks)
    if (block.residence == Residence::streamed) total += block.load;
  return total;
}

Ticks load_time(const MemorySchedule& schedule) {
  Ticks most = 0;
  for (const StreamingDevice& device : schedule.devices) most = std::max(most, load_time(device));
  return most;
}

}  // namespace tandem::study
