#pragma once

// The scheduler's weight memory: Proposition 5, its exact value, and the peak in a run of the
// recurrence. Weights only: no cache, activations or buffers (model/graph/memory).

#include <cstdint>
#include <vector>

#include "study/steady_state/memory_schedule.hpp"

namespace tandem::study {

// Elements of the blocks that a device loads (TPI-LLM, table 4). `Number` is std::int64_t if heads
// and shares divide the model, so that nothing is rounded, else double.
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

// Returns Proposition 5 as printed, in elements (its gamma = 1), for the master (7) and a worker
// (8).
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

// A Llama-like model, and a device's share p = share / shares of it.
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

// Returns the exact peak: the retained blocks, plus the largest sum of `window` consecutive
// streamed blocks in the cyclic order of a token (all of them if the window is that large).
// `sizes`: of the device's blocks. Throws logic_error unless there is one for each.
[[nodiscard]] std::int64_t window_peak(const StreamingDevice& device,
                                       const std::vector<std::int64_t>& sizes);

// Returns the peak memory of device `index` in the recurrence during its first `tokens` tokens:
// retained blocks always count, others from the start of their load until their release. At most
// window_peak, and equal to it if the window is ever full at its largest.
[[nodiscard]] std::int64_t simulated_peak(const MemorySchedule& schedule, std::size_t index,
                                          const std::vector<std::int64_t>& sizes,
                                          std::int64_t tokens);

}  // namespace tandem::study
