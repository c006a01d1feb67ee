#include "cli/views/predicted_view.hpp"

#include <cmath>
#include <optional>
#include <ostream>
#include <string>

#include "advice/prediction.hpp"
#include "cli/flags/predicted_workload.hpp"
#include "cli/views/result_tables.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;
using model::Interval;

model::LatencyStats latency_of(const model::Result& result) {
  const model::Metrics& metrics = result.metrics;
  return metrics.token_latency ? *metrics.token_latency
                               : model::latency_stats(metrics.token_latencies_s());
}

const model::RequestResult* only_request(const model::Result& result) {
  return result.requests.size() == 1 ? &result.requests.front() : nullptr;
}

// The request's time and its interval, from its arrival.
double duration_of(const model::RequestResult& request) {
  return request.end_s - request.arrival_s;
}

std::optional<Interval> duration_interval(const model::RequestResult& request) {
  if (!request.interval_90 || !request.interval_90->end_s) return std::nullopt;
  const Interval& end = *request.interval_90->end_s;
  return Interval{end.low - request.arrival_s, end.high - request.arrival_s};
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

}  // namespace

model::Result predicted_times(const planner::Plan& plan, const std::optional<Served>& served) {
  if (!served) return study::predict_fairly(plan, nullptr, true);
  const study::ServedWorkload workload = for_prediction(*served);
  return study::predict_fairly(plan, &workload, true);
}

void print_predicted(const model::Result& result, std::ostream& out) {
  const model::TimeIntervals intervals = result.interval_90.value_or(model::TimeIntervals{});
  const model::RequestResult* const request = only_request(result);
  const double latency = latency_of(result).mean;
  std::string text;
  const auto add = [&](const std::string& name, const std::string& value) {
    text += (text.empty() ? "\npredicted: " : ", ") + name + ' ' + value;
  };
  if (request != nullptr) {
    const bool generates = !result.metrics.token_times_s.empty();
    add(generates ? "first token" : "pass",
        to_text(model::Seconds{request->ttft_s}, intervals.ttft_s));
  }
  if (std::isfinite(latency)) {
    add("a new token",
        to_text(model::Seconds{latency},
                intervals.token_latency_s ? std::optional<Interval>(intervals.token_latency_s->mean)
                                          : std::nullopt));
  }
  if (request != nullptr && duration_of(*request) > request->ttft_s)
    add("request", to_text(model::Seconds{duration_of(*request)}, duration_interval(*request)));
  if (request == nullptr && result.metrics.throughput_tokens_per_s) {
    std::string rate = model::fixed(*result.metrics.throughput_tokens_per_s, 2);
    if (const auto& interval = intervals.throughput_tokens_per_s)
      rate +=
          " (" + model::fixed(interval->low, 2) + " to " + model::fixed(interval->high, 2) + ')';
    add("all requests", rate + " tokens a second");
  }
  if (text.empty()) return;
  out << text;
  print_interval_basis(result, out);
}

Json predicted_json(const model::Result& result) {
  const model::RequestResult* const request = only_request(result);
  const model::LatencyStats stats = latency_of(result);
  const Json latency{
      {"mean", stats.mean}, {"p50", stats.p50}, {"p90", stats.p90}, {"p99", stats.p99}};
  Json intervals = model::interval_json(result.interval_90);
  if (request != nullptr) {
    if (const auto whole = duration_interval(*request))
      intervals["request_s"] = {whole->low, whole->high};
  }
  const auto& rate = result.metrics.throughput_tokens_per_s;
  return {{"ttft_s", request != nullptr ? number(request->ttft_s) : Json()},
          {"token_latency_s", std::isfinite(stats.mean) ? latency : Json()},
          {"request_s", request != nullptr ? number(duration_of(*request)) : Json()},
          {"throughput_tokens_per_s", rate ? Json(*rate) : Json()},
          {"interval_90", std::move(intervals)}};
}

}  // namespace tandem::cli
