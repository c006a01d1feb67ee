#include "advice/service_rates.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "advice/prediction.hpp"
#include "model/base/error.hpp"
#include "planner/serving/drawn_requests.hpp"
#include "planner/serving/serving_plan.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::service_rates_test {
namespace {

using model::Result;
using planner::InferenceRequest;
using study::HighestRate;
using study::RatePoint;
using study::ServiceGoal;
using Requests = std::vector<InferenceRequest>;

constexpr double kPrompt = 0.5;   // seconds of a prompt
constexpr double kService = 2.0;  // seconds of a request

Requests evenly(int count, double gap) {
  Requests requests;
  for (int i = 0; i < count; ++i)
    requests.push_back({.id = "r" + std::to_string(i),
                        .arrival_s = 7.0 + gap * i,
                        .prompt_tokens = 4,
                        .new_tokens = 4});
  return requests;
}

// One server, one request after another: Lindley's recursion, Proc. Cambridge Phil. Soc. 48, 1952.
Result one_server(const Requests& requests) {
  Result result;
  double free = 0.0;
  for (const InferenceRequest& request : requests) {
    const double start = std::max(free, request.arrival_s);
    free = start + kService;
    result.requests.push_back({.id = request.id,
                               .arrival_s = request.arrival_s,
                               .queueing_s = start - request.arrival_s,
                               .ttft_s = start + kPrompt - request.arrival_s,
                               .end_s = free,
                               .token_latency = model::latency_stats({kPrompt, kPrompt, kPrompt})});
  }
  return result;
}

ServiceGoal all_within(double ttft_s) { return {.ttft_s = ttft_s, .share = 1.0}; }

// Devices that serve many requests in the same steps.
planner::Plan served_plan(const Requests& requests, const planner::Policy& policy) {
  auto made = planner::make_serving_plan(
      {.model = small_model({}), .cluster = star_cluster({{}, {}}), .workload = {}}, requests,
      policy, 0);
  REQUIRE(std::holds_alternative<planner::Plan>(made));
  return std::get<planner::Plan>(std::move(made));
}

}  // namespace

// Requests at equal gaps g < s on one server: request k waits k (s - g), so all of n are within
// T iff (n - 1) (s - g) <= T - t.
TEST_CASE("study/service rates: the highest rate of one server is that of the closed form") {
  for (const int count : {2, 5, 40}) {
    for (const double slack : {0.25, 1.0, 1.9}) {
      CAPTURE(count);
      CAPTURE(slack);
      const double gap = kService - slack / (count - 1);
      // 2e7: a workload of years.
      const HighestRate found =
          study::highest_rate(evenly(count, count == 5 ? 0.1 : (count == 2 ? 2e7 : 30.0)),
                              all_within(kPrompt + slack), one_server);
      REQUIRE(found.holds);
      REQUIRE(found.fails);
      CHECK(found.holds->rate <= 1.0 / gap * (1.0 + 1e-9));
      CHECK(found.fails->rate >= 1.0 / gap * (1.0 - 1e-9));
      CHECK(found.fails->rate <= 1.0101 * found.holds->rate);
      CHECK(found.holds->within == 1.0);
      CHECK(found.fails->within < 1.0);
    }
  }
}

TEST_CASE("study/service rates: goals that hold or fail at every rate have no bracket") {
  const Requests requests = evenly(4, 1.0);
  const HighestRate always =
      study::highest_rate(requests, all_within(3 * kService + kPrompt), one_server);
  CHECK(always.holds);
  CHECK_FALSE(always.fails);
  const HighestRate never = study::highest_rate(requests, all_within(0.9 * kPrompt), one_server);
  CHECK_FALSE(never.holds);
  REQUIRE(never.fails);
  CHECK(never.fails->queueing_s.p90 == 0.0);  // not even alone
}

TEST_CASE("study/service rates: a point counts by hand") {
  Result result;
  const auto add = [&](double arrival, double ttft, double latency, double end) {
    result.requests.push_back({.id = {},
                               .arrival_s = arrival,
                               .queueing_s = ttft / 2,
                               .ttft_s = ttft,
                               .end_s = end,
                               .token_latency = {.mean = latency}});
  };
  const double none = std::numeric_limits<double>::quiet_NaN();
  add(1.0, 2.0, 0.1, 4.0);   // both
  add(2.0, 2.5, 0.1, 9.0);   // first token too late
  add(3.0, 1.0, 0.2, 11.0);  // other tokens too late
  add(6.0, 1.0, none, 7.0);  // one token, which has no gap
  const RatePoint point = study::rate_point(result, {.ttft_s = 2.0, .latency_s = 0.1});
  CHECK(point.within == 0.5);
  CHECK(point.rate == doctest::Approx(3.0 / 5.0));
  CHECK(point.goodput == doctest::Approx(2.0 / 10.0));
  CHECK(point.ttft_s.p50 == doctest::Approx(1.5));
  CHECK(point.latency_s.p50 == doctest::Approx(0.1));
  CHECK(point.queueing_s.p90 == doctest::Approx(1.175));  // of 0.5, 0.5, 1, 1.25
}

TEST_CASE("study/service rates: arrivals are stretched, and everything else stays") {
  const Requests drawn = planner::drawn_requests(
      {.count = 20, .rate = 3.0, .prompt = {8, 8}, .output = {4, 4}, .seed = 2});
  const Requests slower = study::at_rate(drawn, study::rate_of(drawn) / 4.0);
  REQUIRE(slower.size() == drawn.size());
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    CHECK(slower[i].arrival_s ==
          doctest::Approx(4.0 * (drawn[i].arrival_s - drawn.front().arrival_s)));
    InferenceRequest same = slower[i];
    same.arrival_s = drawn[i].arrival_s;
    CHECK(same == drawn[i]);
  }
  CHECK_THROWS_AS(static_cast<void>(study::rate_of(evenly(3, 0.0))), Error);
  CHECK_THROWS_AS(static_cast<void>(study::rate_of(evenly(1, 1.0))), Error);
}

TEST_CASE("study/service rates: goals are read, and mistakes are named") {
  const ServiceGoal goal = study::parse_goal("latency=100ms,ttft=2s,share=99.5%", "flag");
  CHECK(goal.ttft_s == 2.0);
  CHECK(goal.latency_s == doctest::Approx(0.1));
  CHECK(goal.share == doctest::Approx(0.995));
  CHECK(study::parse_goal("ttft=1s", "flag").share == 0.9);
  for (const char* const wrong :
       {"", "ttft", "ttft=", "ttft=2", "ttft=2s,", "ttft=0s", "ttft=1s,ttft=2s", "share=90%",
        "ttft=1s,share=0%", "ttft=1s,share=101%", "ttft=1s,share=0.9", "ttft=1s,share=90%,share=9%",
        "tpot=1s", "ttft=1s latency=2s"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS(static_cast<void>(study::parse_goal(wrong, "flag '--goal'")),
                         doctest::Contains("flag '--goal'"), Error);
  }
}

// A batch waits for the requests that it knows. A service does not know those that come.
TEST_CASE("study/service rates: no policy waits for requests that have not arrived") {
  Requests requests = evenly(3, 0.0);
  for (std::size_t i = 0; i < requests.size(); ++i)
    requests[i].arrival_s = std::vector<double>{0.0, 0.0, 50.0}[i];
  for (const planner::Policy& policy : planner::policies()) {
    if (policy.budget()) continue;
    CAPTURE(policy.name);
    const planner::Plan plan = served_plan(requests, policy);
    study::ServedWorkload served{.requests = requests, .policy = &policy};
    const Result known = study::predict_served_fairly(plan, served);
    served.live = true;
    const Result live = study::predict_served_fairly(plan, served);
    CHECK(live.requests.front().queueing_s < 1.0);
    CHECK(live.requests.back().queueing_s < 1.0);
    if (policy.name == "static") {
      CHECK(known.requests.front().queueing_s == doctest::Approx(50.0));
    } else {
      CHECK(live.schedule == known.schedule);
    }
  }
}

// The policies' steps do not depend on when they learn of later arrivals.
TEST_CASE("study/service rates: live traces have the steps of known ones") {
  const Requests requests = planner::drawn_requests(
      {.count = 30, .rate = 0.5, .prompt = {8, 20}, .output = {6, 20}, .seed = 5});
  for (const planner::Policy& policy : planner::policies()) {
    if (policy.name == "static") continue;
    CAPTURE(policy.name);
    const planner::Plan plan = served_plan(requests, planner::find_policy("continuous"));
    study::ServedWorkload served{
        .requests = requests, .policy = &policy, .chunk = policy.budget() ? 8 : 0};
    for (const double rate : {0.01, 0.5, 3.0, 100.0}) {
      served.requests = study::at_rate(requests, rate);
      served.live = false;
      const Result known = study::predict_served_fairly(plan, served);
      served.live = true;
      CHECK(study::predict_served_fairly(plan, served).schedule == known.schedule);
    }
  }
}

}  // namespace tandem::test::service_rates_test
