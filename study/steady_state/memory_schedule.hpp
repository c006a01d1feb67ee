#pragma once

// The input of the memory scheduler as times only: the blocks of one token on every device, their
// compute and load times, and how many may be in memory. The recurrence, its closed forms and the
// task graph for backends are all derived from it.

#include <cstdint>
#include <limits>
#include <vector>

#include "model/graph/release_rule.hpp"

namespace tandem::study {

// Integer units of time, of the caller's choice (microseconds, nanoseconds), so that sums and
// comparisons are exact and repeated states compare equal.
using Ticks = std::int64_t;

// A window that never makes the loader wait.
inline constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// A device's treatment of a block's weights: loaded for every token, kept, or none (a worker's part
// in embedding and head).
enum class Residence : std::uint8_t { streamed, retained, none };

struct BlockTimes {
  Ticks compute = 0;
  Ticks load = 0;
  Residence residence = Residence::streamed;
  bool operator==(const BlockTimes&) const = default;
};

struct StreamingDevice {
  std::vector<BlockTimes> blocks{};  // of one token, in order
  // Streamed blocks in memory at once, including the one that computes: the j-th load waits for the
  // release of streamed block j - window. Retained blocks are outside the window.
  std::int64_t window = kUnlimited;
  model::ReleaseRule release = model::ReleaseRule::early;
  bool operator==(const StreamingDevice&) const = default;
};

// Token after token, every device computes blocks 0, 1, ..., with an exchange after each.
struct MemorySchedule {
  std::vector<StreamingDevice> devices{};
  std::vector<Ticks> reduce{};  // all-reduce after each block; 0: none
  [[nodiscard]] std::size_t blocks() const { return reduce.size(); }
  bool operator==(const MemorySchedule&) const = default;
};

// Throws logic_error unless there is a device and a block, every device has every block, windows
// are at least 1, times are at least 0, and one token's times add up to less than 2^53 ticks.
void validate(const MemorySchedule& schedule);

// Returns the token time without loads: sum over blocks of
//   max over devices t(b) + t_ar(b).
[[nodiscard]] Ticks path_time(const MemorySchedule& schedule);
// Returns the load time of `device` for one token: the sum of tau over its streamed blocks.
[[nodiscard]] Ticks load_time(const StreamingDevice& device);
// Returns the largest load_time, a lower bound of the token time.
[[nodiscard]] Ticks load_time(const MemorySchedule& schedule);

}  // namespace tandem::study
