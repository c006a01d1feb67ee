#pragma once

// Intervals of predicted times, and their JSON.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/base/json_value.hpp"
#include "model/base/units.hpp"

namespace tandem::model {

// In which a value lies with 90% probability, if its assumptions hold
// (docs/explanation/cost-model.md).
struct Interval {
  double low = 0.0;
  double high = 0.0;
  bool operator==(const Interval&) const = default;
};

// The interval between the 5th and the 95th percentile of `draws`, widened to have `value`, which
// is what is predicted: the longest of many devices' times may lie above all of them without any
// error. Nothing if `value` or a draw is not finite, or there is no draw.
[[nodiscard]] std::optional<Interval> interval_90(const std::vector<double>& draws, double value);

struct LatencyIntervals {
  Interval mean{};
  Interval p50{};
  Interval p90{};
  Interval p99{};
  bool operator==(const LatencyIntervals&) const = default;
};

// Of the times of a run, or of a request, what it has: those that do not apply are absent.
struct TimeIntervals {
  std::optional<Interval> queueing_s{};  // of a request only
  std::optional<Interval> ttft_s{};
  std::optional<Interval> end_s{};  // of a request only
  std::optional<LatencyIntervals> token_latency_s{};
  std::optional<Interval> throughput_tokens_per_s{};  // of a run only
  bool operator==(const TimeIntervals&) const = default;
};

// {"ttft_s": [low, high], "token_latency_s": {"mean": [low, high], ...}, ...}: what is absent is
// left out; null without intervals. read throws Error naming the field.
[[nodiscard]] nlohmann::ordered_json interval_json(const std::optional<TimeIntervals>& intervals);
[[nodiscard]] std::optional<TimeIntervals> read_intervals(const JsonValue& json);

// "1.9 s (1.7 to 2.2)", with units in the brackets where these are not all the same; "1.9 s"
// without an interval.
[[nodiscard]] std::string to_text(Seconds value, const std::optional<Interval>& interval);

}  // namespace tandem::model
