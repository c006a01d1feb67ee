#pragma once

// Rows of a step, shared out over devices.

#include <cstdint>
#include <vector>

#include "model/graph/memory.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::planner {

// Whether the batch is of a prompt: some sequence has several new rows.
[[nodiscard]] bool is_prompt(const model::Batch& batch);

// Whether a strategy that parts rows beside heads and columns gives rows to a device with `share`.
[[nodiscard]] inline bool has_rows(const model::Share& share) {
  return !share.heads.empty() && !share.columns.empty();
}

// `total` in `parts` that differ by one at most, the larger ones first: no part of more rows is
// smaller than that of fewer.
[[nodiscard]] std::vector<std::int32_t> equal_parts(std::int32_t total, std::int32_t parts);

// `total` in parts that follow `weights`, none negative, by D'Hondt's divisors: the next row goes
// to the largest weight / (rows + 1), equal ones to the first. No part of more rows is smaller than
// that of fewer, and none is below its quota rounded down. {1, 1, 2} of 10 are 3, 2 and 5. Throws
// logic_error unless some weight is positive.
[[nodiscard]] std::vector<std::int32_t> parts_by_weight(std::int32_t total,
                                                        const std::vector<std::int64_t>& weights);

// By row of the batch, whether the step's result needs it: rows that are sampled from, or all rows
// of an encoder's pass.
[[nodiscard]] std::vector<bool> wanted_rows(const model::Batch& batch, bool generates);
// The least range within `rows` that has all of them which are wanted; empty if none is.
[[nodiscard]] model::Range wanted_within(const std::vector<bool>& wanted, model::Range rows);

}  // namespace tandem::planner
