#pragma once

// How a service does at different rates of arrival, and the highest rate within a stated goal.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/report/result.hpp"
#include "planner/plan/inference_request.hpp"

namespace tandem::study {

// What a service promises. A request is within the goal if its time to first token and the mean of
// its gaps between tokens are at most these (service level objective and attainment of DistServe,
// OSDI 2024); a request of one token has no gaps. The goal holds if `share` of the requests are.
struct ServiceGoal {
  std::optional<double> ttft_s{};
  std::optional<double> latency_s{};
  double share = 0.9;
  // Returns whether one request is within the goal.
  [[nodiscard]] bool meets(const model::RequestResult& request) const;
};

// Reads "ttft=2s,latency=100ms,share=90%", of which at least one time is required. Throws Error
// naming `subject`, the text, what was expected and the remedy.
[[nodiscard]] ServiceGoal parse_goal(std::string_view text, const std::string& subject);
// "first token 2 s, token latency 100 ms, for 90% of the requests".
[[nodiscard]] std::string to_text(const ServiceGoal& goal);

// Median and 90th percentile over the requests; NaN if none has the value.
struct RequestSpread {
  double p50 = 0.0;
  double p90 = 0.0;
};

struct RatePoint {
  double rate = 0.0;     // arrivals a second: (requests - 1) / (last arrival - first)
  double within = 0.0;   // requests within the goal, as a fraction of all
  double goodput = 0.0;  // the same, a second, from the first arrival to the last end (vLLM)
  RequestSpread ttft_s{};
  RequestSpread latency_s{};  // of the mean of each request's gaps
  RequestSpread queueing_s{};
  double throughput = 0.0;  // tokens a second
};

// Returns the point of a service that had `result`.
[[nodiscard]] RatePoint rate_point(const model::Result& result, const ServiceGoal& goal);

// Returns the rate of `requests`, which are sorted by arrival. Throws Error unless there are two
// that arrive at different times.
[[nodiscard]] double rate_of(std::span<const planner::InferenceRequest> requests);
// Returns `requests` with arrivals stretched from the first one on so that they come at `rate`.
[[nodiscard]] std::vector<planner::InferenceRequest> at_rate(
    std::vector<planner::InferenceRequest> requests, double rate);

// Returns what requests get: a prediction.
using Service =
    std::function<model::Result(const std::vector<planner::InferenceRequest>& requests)>;

struct HighestRate {
  std::optional<RatePoint> holds{};  // absent: at no rate
  std::optional<RatePoint> fails{};  // the lowest rate above it at which it is known not to hold
};

// Finds the highest rate of `requests` at which `goal` holds, by doubling or halving from their own
// rate and bisection to 1%. Absent `fails`: it holds even at a million times their own rate, and at
// a million a second. Absent `holds`: it fails even at a thousandth of the rate at which requests
// are served that are all there, where hardly any two meet. Between the rates that were tried, the
// goal may hold and fail several times, since at another rate other requests share steps.
[[nodiscard]] HighestRate highest_rate(const std::vector<planner::InferenceRequest>& requests,
                                       const ServiceGoal& goal, const Service& service);

}  // namespace tandem::study
