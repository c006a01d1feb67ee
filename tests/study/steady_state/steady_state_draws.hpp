#pragma once

// Random schedules of the memory scheduler for tests.

#include <array>
#include <cstdint>
#include <random>

#include "study/steady_state/layered.hpp"

namespace tandem::study::testing {

class ScheduleDice {
 public:
  explicit ScheduleDice(unsigned seed) : random_(seed) {}

  std::int64_t in(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(random_);
  }
  std::int64_t window() {
    constexpr std::array<std::int64_t, 7> kWindows{1, 2, 3, 4, 5, 8, kUnlimited};
    return kWindows.at(static_cast<std::size_t>(in(0, 6)));
  }
  model::ReleaseRule rule() {
    return in(0, 1) == 0 ? model::ReleaseRule::early : model::ReleaseRule::late;
  }
  LayerTimes layer(std::int64_t most) {
    return {in(0, most), in(0, most), in(0, most), in(0, most)};
  }

  // Layers all alike, no retention.
  LayeredSchedule layered(std::int64_t most_devices) {
    LayeredSchedule made{.reduce = in(0, 19), .layers = in(1, 5)};
    made.window = window();
    made.release = rule();
    for (std::int64_t d = in(1, most_devices); d > 0; --d) made.devices.push_back(layer(39));
    return made;
  }

  // Blocks of any lengths; each device its own window, rule and retained, streamed, absent blocks.
  MemorySchedule any(std::int64_t most_devices) {
    MemorySchedule made;
    for (std::int64_t b = in(1, 9); b > 0; --b) made.reduce.push_back(in(0, 19));
    for (std::int64_t d = in(1, most_devices); d > 0; --d) {
      StreamingDevice device{.window = window(), .release = rule()};
      for (std::size_t b = 0; b < made.blocks(); ++b) {
        const std::int64_t what = in(0, 9);
        device.blocks.push_back({in(0, 39), in(0, 39),
                                 what == 0   ? Residence::none
                                 : what == 1 ? Residence::retained
                                             : Residence::streamed});
      }
      made.devices.push_back(device);
    }
    return made;
  }

 private:
  std::mt19937 random_;
};

}  // namespace tandem::study::testing
