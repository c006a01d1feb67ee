#pragma once

// Which part of a plan took longer or shorter than predicted.

#include <optional>
#include <string>

#include "model/report/result.hpp"

namespace tandem::model {

// The busy time of one device's lane, of all its channels together, in both results.
struct LaneDeviation {
  std::string device{};
  LaneKind lane = LaneKind::cpu;
  double predicted_s = 0.0;
  double run_s = 0.0;
  // predicted_s - run_s in percent of run_s; infinite where only that is 0.
  [[nodiscard]] double percent() const;
};

// The lane whose busy time deviates most, in seconds, of those that deviate by more than
// `least_percent`; nothing if there is none. Both results are of the same work.
[[nodiscard]] std::optional<LaneDeviation> largest_deviation(const Result& predicted,
                                                             const Result& run,
                                                             double least_percent);

}  // namespace tandem::model
