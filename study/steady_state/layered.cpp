#include "study/steady_state/layered.hpp"

#include "model/base/error.hpp"

namespace tandem::study {

std::int64_t retained_blocks(const LayeredSchedule& layered) {
  return layered.retain == 0 ? 0 : (layered.layers + layered.retain - 1) / layered.retain;
}

MemorySchedule to_schedule(const LayeredSchedule& layered) {
  require(layered.layers >= 1 && layered.retain >= 0, "layered schedule: layers or T out of range");
  MemorySchedule schedule;
  schedule.reduce.assign(static_cast<std::size_t>(2 * layered.layers), layered.reduce);
  for (const LayerTimes& times : layered.devices) {
    StreamingDevice device{.window = layered.window, .release = layered.release};
    for (std::int64_t l = 0; l < layered.layers; ++l) {
      const bool stays = layered.retain > 0 && l % layered.retain == 0;
      device.blocks.push_back({times.attention, times.load_attention, Residence::streamed});
      device.blocks.push_back(
          {times.ffn, times.load_ffn, stays ? Residence::retained : Residence::streamed});
    }
    schedule.devices.push_back(device);
  }
  return schedule;
}

}  // namespace tandem::study
