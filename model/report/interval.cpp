#include "model/report/interval.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "model/base/quantity_text.hpp"
#include "model/base/statistics.hpp"

namespace tandem::model {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLow = 0.05;
constexpr double kHigh = 0.95;

Json pair_json(const Interval& interval) { return {interval.low, interval.high}; }

Interval read_pair(const JsonValue& json) {
  if (json.size(2) != 2) json.fail("[low, high]");
  const Interval interval{.low = json.at(std::size_t{0}).number(0.0, kMaxNumber),
                          .high = json.at(std::size_t{1}).number(0.0, kMaxNumber)};
  if (interval.low > interval.high) json.fail("[low, high], the lower first");
  return interval;
}

std::optional<Interval> read_optional(const JsonValue& json, std::string_view key) {
  const auto found = json.find(key);
  return found ? std::optional(read_pair(*found)) : std::nullopt;
}

}  // namespace

std::optional<Interval> interval_90(const std::vector<double>& draws, double value) {
  const auto finite = [](double one) { return std::isfinite(one); };
  if (draws.empty() || !finite(value) || !std::ranges::all_of(draws, finite)) return std::nullopt;
  return Interval{.low = std::min(value, quantile(draws, kLow)),
                  .high = std::max(value, quantile(draws, kHigh))};
}

Json interval_json(const std::optional<TimeIntervals>& intervals) {
  if (!intervals) return nullptr;
  Json json = Json::object();
  const auto put = [&](const char* key, const std::optional<Interval>& interval) {
    if (interval) json[key] = pair_json(*interval);
  };
  put("queueing_s", intervals->queueing_s);
  put("ttft_s", intervals->ttft_s);
  put("end_s", intervals->end_s);
  if (const auto& latency = intervals->token_latency_s) {
    json["token_latency_s"] = {{"mean", pair_json(latency->mean)},
                               {"p50", pair_json(latency->p50)},
                               {"p90", pair_json(latency->p90)},
                               {"p99", pair_json(latency->p99)}};
  }
  put("throughput_tokens_per_s", intervals->throughput_tokens_per_s);
  return json;
}

std::optional<TimeIntervals> read_intervals(const JsonValue& json) {
  if (json.is_null()) return std::nullopt;
  json.expect_keys({"queueing_s", "ttft_s", "end_s", "token_latency_s", "throughput_tokens_per_s"});
  TimeIntervals intervals{
      .queueing_s = read_optional(json, "queueing_s"),
      .ttft_s = read_optional(json, "ttft_s"),
      .end_s = read_optional(json, "end_s"),
      .token_latency_s = {},
      .throughput_tokens_per_s = read_optional(json, "throughput_tokens_per_s")};
  if (const auto latency = json.find("token_latency_s")) {
    latency->expect_keys({"mean", "p50", "p90", "p99"});
    intervals.token_latency_s = LatencyIntervals{.mean = read_pair(latency->at("mean")),
                                                 .p50 = read_pair(latency->at("p50")),
                                                 .p90 = read_pair(latency->at("p90")),
                                                 .p99 = read_pair(latency->at("p99"))};
  }
  return intervals;
}

std::string to_text(Seconds value, const std::optional<Interval>& interval) {
  std::string text = to_text(value);
  if (!interval) return text;
  std::string low = to_text(Seconds{interval->low});
  std::string high = to_text(Seconds{interval->high});
  const std::string unit = text.substr(text.find(' '));
  if (low.ends_with(unit) && high.ends_with(unit)) {
    low.erase(low.size() - unit.size());
    high.erase(high.size() - unit.size());
  }
  return text + " (" + low + " to " + high + ')';
}

}  // namespace tandem::model
