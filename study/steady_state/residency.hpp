#pragma once

// How much weight memory the scheduler holds: Proposition 5, its exact value, and what a run of the
// recurrence really has in memory. Weights only: no cache, activations or buffers
// (model/graph/memory).

#include <cstdint>
#include <vector>

#include "study/steady_state/memory_schedule.hpp"

namespace tandem::study {

// Elements of the blocks that a device loads (TPI-LLM, table 4). `Number` is std::int64_t where
// heads and shares divide the model, so that nothing is rounded, and double where they need not.
template <class Number>
struct BlockElements {
  Number hidden{};        // h
  Number kv_hidden{};     // h b/a: as many columns as key and value projections have
  Number intermediate{};  // s
  Number vocab{};         // v
  Number share{};         // h p: the device's part of the hidden columns

  [[nodiscard]] Number preprocess() const { return hidden * vocab; }
  [[nodiscard]] Number attention() const { return 2 * (hidden + kv_hidden) * share + hidden; }
  [[nodiscard]] Number ffn() const { return 3 * intermediate * share + hidden; }
  [[nodiscard]] Number postprocess() const { return hidden * vocab + hidden; }
};

// Proposition 5 as printed, in elements (its gamma = 1), of the master (7) and of a worker (8).
template <class Number>
[[nodiscard]] Number proposition5_master(const BlockElements<Number>& blocks, std::int64_t window) {
  if (window == 1) return blocks.postprocess();
  const Number both = blocks.preprocess() + blocks.postprocess();
  if (window == 2) return both;
  const std::int64_t attention = (window - 2) / 2;
  const std::int64_t ffn = (window - 1) / 2;
  return both + static_cast<Number>(attention) * blocks.attention() +
         static_cast<Number>(ffn) * blocks.ffn();
}
template <class Number>
[[nodiscard]] Number proposition5_worker(const BlockElements<Number>& blocks, std::int64_t window) {
  const std::int64_t attention = window / 2;
  const std::int64_t ffn = (window + 1) / 2;
  return static_cast<Number>(attention) * blocks.attention() +
         static_cast<Number>(ffn) * blocks.ffn();
}

// A Llama-like model, and the share p = share / shares of it that a device has.
struct WindowGeometry {
  std::int64_t hidden = 0;        // h, divisible by `shares`
  std::int64_t vocab = 0;         // v
  std::int64_t heads = 1;         // a, divides h
  std::int64_t kv_heads = 1;      // b
  std::int64_t intermediate = 0;  // s
  std::int64_t share = 1;
  std::int64_t shares = 1;

  [[nodiscard]] BlockElements<std::int64_t> blocks() const {
    return {.hidden = hidden,
            .kv_hidden = hidden / heads * kv_heads,
            .intermediate = intermediate,
            .vocab = vocab,
            .share = hidden / shares * share};
  }
};

// The exact peak: what is retained, and the largest sum of `window` consecutive streamed blocks in
// the cyclic order of a token; all of them if the window has room for all. `sizes`: of the device's
// blocks. Throws logic_error unless there is one for each.
[[nodiscard]] std::int64_t window_peak(const StreamingDevice& device,
                                       const std::vector<std::int64_t>& sizes);

// What the recurrence has in memory at most during its first `tokens` tokens on device `index`: a
// retained block always, another from the start of its load until its release. At most window_peak,
// and equal to it if the window is ever full where it is largest.
[[nodiscard]] std::int64_t simulated_peak(const MemorySchedule& schedule, std::size_t index,
                                          const std::vector<std::int64_t>& sizes,
                                          std::int64_t tokens);

}  // namespace tandem::study
