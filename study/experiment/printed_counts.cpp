#include "study/experiment/printed_counts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

namespace tandem::study {
namespace {

constexpr double kNear = 0.15;
constexpr double kFar = 0.30;

struct Printed {
  double error = 0.0;  // the largest of its rows
  bool predicted = false;
  bool calibrates = false;
};

double error_of(const ExperimentRow& row) {
  if (const auto error = row.error()) return std::abs(*error);
  return row.paper == row.tandem ? 0.0 : std::numeric_limits<double>::infinity();
}

}  // namespace

PrintedCounts printed_counts(std::span<const ExperimentReport> reports) {
  std::map<std::string, Printed> numbers;
  std::size_t alone = 0;
  for (const ExperimentReport& report : reports) {
    for (const ExperimentRow& row : report.rows) {
      Printed& number =
          numbers[row.printed.empty() ? "row " + std::to_string(alone++) : row.printed];
      number.calibrates = number.calibrates || row.calibrated;
      if (!row.predicts()) continue;
      number.predicted = true;
      number.error = std::max(number.error, error_of(row));
    }
  }
  PrintedCounts counts;
  for (const auto& [name, number] : numbers) {
    if (!number.predicted || number.calibrates) continue;
    ++counts.numbers;
    counts.within_15 += number.error <= kNear ? 1U : 0U;
    counts.within_30 += number.error <= kFar ? 1U : 0U;
  }
  return counts;
}

}  // namespace tandem::study
