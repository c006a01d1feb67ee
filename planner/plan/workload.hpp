#pragma once

#include <algorithm>
#include <cstdint>

#include "model/transformer/transformer.hpp"
#include "planner/plan/capacity.hpp"

namespace tandem::planner {

// The lengths of one request, for which shares, sums and windows are chosen.
struct Workload {
  std::int64_t prompt_tokens = 0;
  std::int64_t new_tokens = 0;  // 0: one pass of an encoder
  // Forward steps: the prompt, then each new token but the last, which is never fed back.
  [[nodiscard]] std::int64_t steps() const { return std::max<std::int64_t>(1, new_tokens); }
  // Positions in the key/value cache at the end.
  [[nodiscard]] std::int64_t positions() const { return prompt_tokens + steps() - 1; }
  // Returns the capacity for this request alone.
  [[nodiscard]] Capacity capacity() const {
    return {.rows = prompt_tokens,
            .positions = reserved_positions(positions()),
            .sequences = 1,
            .steps = 1};
  }
  // Throws Error unless both are at least 1 (new tokens: 0 if the model is an encoder) and together
  // fit the model's context.
  void validate(const model::Transformer& transformer) const;
  bool operator==(const Workload&) const = default;
};

}  // namespace tandem::planner
