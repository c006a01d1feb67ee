#pragma once

// What the memory scheduler is asked to do, in times only: the blocks of one token on every device,
// how long each computes and loads, and how many may be in memory. The recurrence, its closed forms
// and the task graph that backends run are all made from this.

#include <cstdint>
#include <limits>
#include <vector>

#include "model/graph/release_rule.hpp"

namespace tandem::study {

// Whole units of time, of the caller's choice (microseconds, nanoseconds), so that sums and
// comparisons are exact and "the state repeats" means equal.
using Ticks = std::int64_t;

// A window that never makes the loader wait.
inline constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// What a device does with a block's weights: load them for every token, keep them, or it has none
// (a worker's part in embedding and head).
enum class Residence : std::uint8_t { streamed, retained, none };

struct BlockTimes {
  Ticks compute = 0;
  Ticks load = 0;
  Residence residence = Residence::streamed;
  bool operator==(const BlockTimes&) const = default;
};

struct StreamingDevice {
  std::vector<BlockTimes> blocks{};  // of one token, in order
  // Streamed blocks that are in memory at once, the one that computes included: the j-th load waits
  // for the release of streamed block j - window. Retained blocks are in memory beside the window
  // and take no place in it.
  std::int64_t window = kUnlimited;
  model::ReleaseRule release = model::ReleaseRule::early;
  bool operator==(const StreamingDevice&) const = default;
};

// Token after token, every device computes block 0, 1, ..., and after each all exchange.
struct MemorySchedule {
  std::vector<StreamingDevice> devices{};
  std::vector<Ticks> reduce{};  // all-reduce after each block; 0: none
  [[nodiscard]] std::size_t blocks() const { return reduce.size(); }
  bool operator==(const MemorySchedule&) const = default;
};

// Throws logic_error unless there is a device and a block, every device has every block, windows
// are at least 1, times are at least 0, and one token's times add up to less than 2^53 ticks.
void validate(const MemorySchedule& schedule);

// The token time of computing and communicating alone: sum over blocks of
//   max over devices t(b) + t_ar(b).
[[nodiscard]] Ticks path_time(const MemorySchedule& schedule);
// What `device` reads for one token: the sum of tau over its streamed blocks.
[[nodiscard]] Ticks load_time(const StreamingDevice& device);
// The largest load_time: no token can be faster.
[[nodiscard]] Ticks load_time(const MemorySchedule& schedule);

}  // namespace tandem::study
