#pragma once

// Counts of a paper's distinct printed numbers.

#include <cstddef>
#include <span>

#include "study/experiment/experiment.hpp"

namespace tandem::study {

struct PrintedCounts {
  std::size_t numbers = 0;
  std::size_t within_15 = 0;  // of errors of at most 15%, or out of memory in both
  std::size_t within_30 = 0;
  bool operator==(const PrintedCounts&) const = default;
};

// Counts the printed numbers that the rows of a paper's `reports` predict. Rows with the same
// `printed` compare with one number, which counts once, with the largest of their errors; not at
// all if one of them calibrates a constant. A number without a prediction is in no range.
[[nodiscard]] PrintedCounts printed_counts(std::span<const ExperimentReport> reports);

}  // namespace tandem::study
