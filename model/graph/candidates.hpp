#pragma once

// The best logits of a row on one device, which it sends instead of all its rows of the LM head.

#include <cstdint>

namespace tandem::model {

// The layout for K candidates of a row of logits x:
//   1 number    the softmax denominator: the sum of exp(x - max) over all of the device's logits
//   K numbers   the largest logits, descending; of equal logits the smaller id comes first. The
//               first is the maximum
//   K numbers   their tokens' ids, as numbers; id -1 and logit -infinity where there are fewer
[[nodiscard]] constexpr std::int64_t candidate_columns(std::int32_t candidates) {
  return 1 + std::int64_t{2} * candidates;
}
[[nodiscard]] constexpr std::int32_t candidates_in(std::int64_t columns) {
  return static_cast<std::int32_t>((columns - 1) / 2);
}
inline constexpr std::int32_t kMostCandidates = 1024;
// Above this, not every id is a float.
inline constexpr std::int64_t kMostCandidateIds = std::int64_t{1} << 24;

}  // namespace tandem::model
