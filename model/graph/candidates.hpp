#pragma once

// What a device with rows of the LM head tells of a row's logits, instead of all of them.

#include <cstdint>

namespace tandem::model {

// Of a row of logits x, in this order, for K candidates:
//   1 number    the denominator of their softmax, the sum of exp(x - max) over all of them
//   K numbers   the largest logits, descending; among equals the smaller id comes first. The first
//               is the maximum
//   K numbers   their tokens' ids, as numbers; -1, and a logit of -infinity, where there are fewer
[[nodiscard]] constexpr std::int64_t candidate_columns(std::int32_t candidates) {
  return 1 + std::int64_t{2} * candidates;
}
[[nodiscard]] constexpr std::int32_t candidates_in(std::int64_t columns) {
  return static_cast<std::int32_t>((columns - 1) / 2);
}
inline constexpr std::int32_t kMostCandidates = 1024;
// Larger ids are not all floats.
inline constexpr std::int64_t kMostCandidateIds = std::int64_t{1} << 24;

}  // namespace tandem::model
