#pragma once

// How much weight memory the scheduler holds: Proposition 5, its exact value, and what a run of the
// recurrence really has in memory. Weights only: no cache, activations or buffers (model/memory).

#include <cstdint>
#include <vector>

#include "study/steady_state/schedule.hpp"

namespace tandem::study {

// A Llama-like model, and the share p = share / shares of it that a device has.
struct WindowGeometry {
  std::int64_t hidden = 0;        // h, divisible by `shares`
  std::int64_t vocab = 0;         // v
  std::int64_t heads = 1;         // a, divides h
  std::int64_t kv_heads = 1;      // b
  std::int64_t intermediate = 0;  // s
  std::int64_t share = 1;
  std::int64_t shares = 1;

  // Elements of one block (TPI-LLM, table 4).
  [[nodiscard]] std::int64_t preprocess() const { return hidden * vocab; }
  [[nodiscard]] std::int64_t attention() const;  // 2 (1 + b/a) h^2 p + h
  [[nodiscard]] std::int64_t ffn() const;        // 3 h s p + h
  [[nodiscard]] std::int64_t postprocess() const { return hidden * vocab + hidden; }
};

// Proposition 5 as printed, in elements (its gamma = 1), of the master (7) and of a worker (8).
[[nodiscard]] std::int64_t proposition5_master(const WindowGeometry& geometry, std::int64_t window);
[[nodiscard]] std::int64_t proposition5_worker(const WindowGeometry& geometry, std::int64_t window);

// The exact peak: what is retained, and the largest sum of `window` consecutive streamed blocks in
// the cyclic order of a token; all of them if the window has room for all. `sizes`: of the device's
// blocks. Throws logic_error unless there is one for each.
[[nodiscard]] std::int64_t window_peak(const StreamingDevice& device,
                                       const std::vector<std::int64_t>& sizes);

// What the recurrence has in memory at most during its first `tokens` tokens on device `index`: a
// retained block always, another from the start of its load until its release. At most window_peak,
// and equal to it if the window is ever full where it is largest.
[[nodiscard]] std::int64_t simulated_peak(const Schedule& schedule, std::size_t index,
                                          const std::vector<std::int64_t>& sizes,
                                          std::int64_t tokens);

}  // namespace tandem::study
