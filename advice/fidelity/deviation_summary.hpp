#pragma once

// How far predictions are off, over many configurations.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "advice/fidelity/recording.hpp"

namespace tandem::study {

// What predictions are judged by: one value a configuration.
struct JudgedMetric {
  std::string_view name;   // "ttft", a key of fidelity.csv
  std::string_view title;  // "TTFT"
  std::string_view unit;
};
// TTFT, mean token latency, and the peak memory of the device whose memory deviates most.
[[nodiscard]] std::span<const JudgedMetric> judged_metrics();
// The quantity of `recording` that `metric` judges; null if there is none with a deviation.
[[nodiscard]] const Quantity* judged(const Recording& recording, std::string_view metric);

// Deviations of one metric. NaN without configurations.
struct DeviationSpread {
  std::size_t count = 0;  // configurations
  double bias = 0.0;      // median of percent, with its sign
  double median = 0.0;    // of |percent|, as the next two
  double p95 = 0.0;
  double worst = 0.0;
  std::string worst_configuration{};
  std::size_t intervals = 0;  // configurations whose prediction states a 90% interval
  std::size_t covered = 0;    // of these: the median of the runs lies in it
};

using Recordings = std::vector<const Recording*>;

[[nodiscard]] DeviationSpread spread_of(const Recordings& recordings, std::string_view metric);

// The same of the sum over devices of a task kind's time, or of a lane's: scope "kind" or "lane".
// A kind's `weight` is its part of all kinds' |predicted - measured| seconds, each configuration
// taken relative to its measured kinds together, so that long runs do not count more.
struct PartSpread {
  std::string name;
  DeviationSpread spread;
  double weight = 0.0;
};
// Those of which a recording has a deviation, the largest weight first.
[[nodiscard]] std::vector<PartSpread> spreads_by_part(const Recordings& recordings,
                                                      std::string_view scope);

// The task kind whose |predicted - measured| seconds are most in `recording`; empty: none.
[[nodiscard]] std::string worst_kind(const Recording& recording);

// Wilson's score interval of a proportion, at 95%: k of n, n > 0. Wilson, JASA 22, 1927
//   (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n),  p = k/n, z = 1.959964
[[nodiscard]] Interval wilson_interval(std::size_t k, std::size_t n);

[[nodiscard]] Recordings all_of(const std::vector<Recording>& recordings);
// Those whose sitting counts.
[[nodiscard]] Recordings counted_of(Recordings recordings);

// Recordings that may be judged together. `title`: empty of those whose links were replayed or that
// had none, else "over TCP (SETTINGS)".
struct RecordingGroup {
  std::string title;
  Recordings recordings;
};
// One of replayed links, one of each TCP, in that order; none is empty.
[[nodiscard]] std::vector<RecordingGroup> groups_by_network(
    const std::vector<Recording>& recordings);

}  // namespace tandem::study
