#include "advice/service_rates.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/statistics.hpp"
#include "model/base/text_table.hpp"

namespace tandem::study {
namespace {

using model::RequestResult;
using planner::InferenceRequest;
using Requests = std::vector<InferenceRequest>;

constexpr double kPrecision = 1.01;  // of the highest rate: failing to holding
constexpr int kMostSteps = 64;       // of doubling or halving
constexpr const char* kExpected =
    "expected times and a share of the requests, such as ttft=2s,latency=100ms,share=90%";

// The share of "90%".
std::optional<double> parse_share(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  double percent = 0.0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(percent > 0.0 && percent <= 100.0)) return std::nullopt;
  return percent / 100.0;
}

RequestSpread spread_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  return {.p50 = model::quantile(values, 0.5), .p90 = model::quantile(values, 0.9)};
}

template <typename Value>
RequestSpread spread_over(const std::vector<RequestResult>& requests, Value value) {
  std::vector<double> values;
  values.reserve(requests.size());
  for (const RequestResult& request : requests) values.push_back(value(request));
  return spread_of(std::move(values));
}

// Service at rates of the same requests.
class RateTrials {
 public:
  RateTrials(const Requests& requests, const ServiceGoal& goal, const Service& service)
      : requests_(requests), goal_(goal), service_(service) {}

  [[nodiscard]] RatePoint at(double rate) const {
    RatePoint point = rate_point(service_(at_rate(requests_, rate)), goal_);
    point.rate = rate;
    return point;
  }
  [[nodiscard]] bool holds(const RatePoint& point) const { return point.within >= goal_.share; }

  // Steps from `rate`, by `factor` each, to the first point where the goal holds or not, as `held`.
  // `limit` is the last rate that is tried. Returns nothing if there is none.
  [[nodiscard]] std::optional<RatePoint> first(double rate, double factor, double limit, bool held,
                                               std::optional<RatePoint>& before) const {
    for (int i = 0; i < kMostSteps; ++i) {
      rate = factor > 1.0 ? std::min(rate * factor, limit) : std::max(rate * factor, limit);
      RatePoint point = at(rate);
      if (holds(point) == held) return point;
      before = point;
      if (rate == limit) break;
    }
    return std::nullopt;
  }

 private:
  const Requests& requests_;
  const ServiceGoal& goal_;
  const Service& service_;
};

// Hardly any two requests meet, or all do: so many times their own rate, and so many a second.
constexpr double kApart = 1e3;
constexpr double kTogether = 1e6;

}  // namespace

bool ServiceGoal::meets(const RequestResult& request) const {
  if (ttft_s && request.ttft_s > *ttft_s) return false;
  const double latency = request.token_latency.mean;
  return !latency_s || !std::isfinite(latency) || latency <= *latency_s;
}

ServiceGoal parse_goal(std::string_view text, const std::string& subject) {
  const auto fail = [&](std::string_view part) -> Error {
    return Error(subject + ": '" + std::string(part) + "', " + kExpected +
                 "; at least one of the times is required");
  };
  ServiceGoal goal;
  bool share = false;
  for (std::string_view left = text;;) {
    const std::string_view part = left.substr(0, left.find(','));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) throw fail(part);
    const std::string_view name = part.substr(0, equals);
    const std::string_view value = part.substr(equals + 1);
    if (name == "share") {
      const std::optional<double> parsed = parse_share(value);
      if (!parsed || std::exchange(share, true)) throw fail(part);
      goal.share = *parsed;
    } else if (name == "ttft" || name == "latency") {
      std::optional<double>& time = name == "ttft" ? goal.ttft_s : goal.latency_s;
      if (time) throw fail(part);
      time = model::parse_seconds(value, subject + ": " + std::string(name)).value();
      if (*time == 0.0) throw fail(part);
    } else {
      throw fail(part);
    }
    if (part.size() == left.size()) break;
    left.remove_prefix(part.size() + 1);
  }
  if (!goal.ttft_s && !goal.latency_s) throw fail(text);
  return goal;
}

std::string to_text(const ServiceGoal& goal) {
  std::string text;
  if (goal.ttft_s) text = "first token within " + model::to_text(model::Seconds{*goal.ttft_s});
  if (goal.latency_s)
    text += (text.empty() ? "" : ", ") + ("mean token latency of a request within " +
                                          model::to_text(model::Seconds{*goal.latency_s}));
  return text + ", for " + model::shortest_text(100.0 * goal.share) + "% of the requests";
}

RatePoint rate_point(const model::Result& result, const ServiceGoal& goal) {
  const std::vector<RequestResult>& all = result.requests;
  require(!all.empty(), "rate_point: requests");
  const auto met =
      std::ranges::count_if(all, [&](const RequestResult& one) { return goal.meets(one); });
  double first = all.front().arrival_s;
  double last = first;
  double end = first;
  for (const RequestResult& one : all) {
    first = std::min(first, one.arrival_s);
    last = std::max(last, one.arrival_s);
    end = std::max(end, one.end_s);
  }
  const auto count = static_cast<double>(all.size());
  return {.rate = (count - 1.0) / (last - first),
          .within = static_cast<double>(met) / count,
          .goodput = static_cast<double>(met) / (end - first),
          .ttft_s = spread_over(all, [](const RequestResult& one) { return one.ttft_s; }),
          .latency_s =
              spread_over(all, [](const RequestResult& one) { return one.token_latency.mean; }),
          .queueing_s = spread_over(all, [](const RequestResult& one) { return one.queueing_s; }),
          .throughput = result.metrics.throughput_tokens_per_s.value_or(0.0)};
}

double rate_of(std::span<const InferenceRequest> requests) {
  const double span =
      requests.empty() ? 0.0 : requests.back().arrival_s - requests.front().arrival_s;
  if (!(span > 0.0))
    throw Error(
        "workload: all requests arrive at one time, expected arrivals over time, which have a "
        "rate; give 'arrival_s', or draw requests with 'tandem workload'");
  return static_cast<double>(requests.size() - 1) / span;
}

Requests at_rate(Requests requests, double rate) {
  const double stretch = rate_of(requests) / rate;
  const double first = requests.front().arrival_s;
  for (InferenceRequest& request : requests)
    request.arrival_s = (request.arrival_s - first) * stretch;
  return requests;
}

HighestRate highest_rate(const Requests& requests, const ServiceGoal& goal,
                         const Service& service) {
  const RateTrials trials(requests, goal, service);
  const double own = rate_of(requests);
  HighestRate found;
  const double crowded = std::max(own, 1.0) * kTogether;
  const model::Result together = service(at_rate(requests, crowded));
  RatePoint point = rate_point(together, goal);
  point.rate = crowded;
  if (trials.holds(point)) return {.holds = point, .fails = {}};
  // The rate at which requests are served if there are always some.
  double end = 0.0;
  for (const RequestResult& one : together.requests) end = std::max(end, one.end_s);
  const double served = static_cast<double>(requests.size()) / end;
  found.fails = point;
  point = trials.at(own);
  if (trials.holds(point)) {
    found.holds = point;
    found.fails = trials.first(own, 2.0, crowded, false, found.holds);
  } else {
    found.fails = point;
    found.holds = trials.first(own, 0.5, std::min(own, served / kApart), true, found.fails);
  }
  while (found.holds && found.fails && found.fails->rate > kPrecision * found.holds->rate) {
    point = trials.at(std::sqrt(found.fails->rate * found.holds->rate));
    (trials.holds(point) ? found.holds : found.fails) = point;
  }
  return found;
}

}  // namespace tandem::study
