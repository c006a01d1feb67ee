#pragma once

// The schedule of TPI-LLM's propositions: uniform layers of an attention and an FFN block, nothing
// between tokens, one FFN block in every T retained.

#include <cstdint>
#include <vector>

#include "study/steady_state/memory_schedule.hpp"

namespace tandem::study {

struct LayerTimes {  // of one device
  Ticks attention = 0;
  Ticks ffn = 0;
  Ticks load_attention = 0;
  Ticks load_ffn = 0;
  bool operator==(const LayerTimes&) const = default;
};

struct LayeredSchedule {
  std::vector<LayerTimes> devices{};
  Ticks reduce = 0;
  std::int64_t layers = 1;
  std::int64_t window = kUnlimited;
  model::ReleaseRule release = model::ReleaseRule::early;
  std::int64_t retain = 0;  // FFN blocks 1, 1 + T, 1 + 2 T, ... stay; 0: none
  bool operator==(const LayeredSchedule&) const = default;
};

[[nodiscard]] MemorySchedule to_schedule(const LayeredSchedule& layered);

// Returns the number of retained FFN blocks: ceil(layers / T).
[[nodiscard]] std::int64_t retained_blocks(const LayeredSchedule& layered);

}  // namespace tandem::study
