#pragma once

// The partition of a step's rows over devices.

#include <cstdint>
#include <vector>

#include "model/graph/memory.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::planner {

// Returns whether the batch belongs to a prompt: some sequence has several new rows.
[[nodiscard]] bool is_prompt(const model::Batch& batch);

// Returns whether a strategy that splits rows, heads and columns gives rows to a device with
// `share`.
[[nodiscard]] inline bool has_rows(const model::Share& share) {
  return !share.heads.empty() && !share.columns.empty();
}

// Returns the range of all `size` indices, from 0.
[[nodiscard]] inline model::Range whole_range(std::int64_t size) {
  return {0, static_cast<std::int32_t>(size)};
}

// Returns the range in a unit of which one of `range` has `factor`: columns of a range of heads,
// for example.
[[nodiscard]] inline model::Range scaled(model::Range range, std::int64_t factor) {
  const auto f = static_cast<std::int32_t>(factor);
  return {range.begin * f, range.end * f};
}

// Splits `total` into `parts` that differ by one at most, the larger ones first. Monotone: for a
// larger total no part is smaller.
[[nodiscard]] std::vector<std::int32_t> equal_parts(std::int32_t total, std::int32_t parts);

// Splits `total` in proportion to `weights`, none negative, by D'Hondt's divisors: the next row
// goes to the largest weight / (rows + 1), ties to the first. Monotone: for a larger total no part
// is smaller; and no part is below its quota rounded down. {1, 1, 2} of 10 are 3, 2 and 5. Throws
// logic_error unless some weight is positive.
[[nodiscard]] std::vector<std::int32_t> parts_by_weight(std::int32_t total,
                                                        const std::vector<std::int64_t>& weights);

// Returns, by row of the batch, whether the step's result needs it: sampled rows, or all rows of an
// encoder's pass.
[[nodiscard]] std::vector<bool> wanted_rows(const model::Batch& batch, bool generates);
// Returns the smallest range within `rows` that covers all wanted ones; empty if there are none.
[[nodiscard]] model::Range wanted_within(const std::vector<bool>& wanted, model::Range rows);

}  // namespace tandem::planner
