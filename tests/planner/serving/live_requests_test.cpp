// Requests that join and leave while others are served, and limits that policies see in place of
// lengths.

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "model/graph/block_table.hpp"
#include "model/predict/analytic.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::live_requests_test {
namespace {

using planner::Capacity;
using planner::InferenceRequest;
using planner::RequestScheduler;

InferenceRequest request_of(double arrival_s, std::int64_t prompt, std::int64_t tokens) {
  return {.id = "r", .arrival_s = arrival_s, .prompt_tokens = prompt, .new_tokens = tokens};
}

std::vector<InferenceRequest> random_trace(std::mt19937& random, int count) {
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  std::vector<InferenceRequest> trace;
  double arrival_s = 0.0;
  for (int i = 0; i < count; ++i) {
    trace.push_back(request_of(arrival_s, draw(1, 30), draw(1, 12)));
    if (draw(0, 2) > 0) arrival_s += draw(0, 50) * 1e-3;
  }
  return trace;
}

// Lets each request of a trace join when it arrives, as a service would.
class AsTheyCome : public model::Scheduler {
 public:
  AsTheyCome(std::vector<InferenceRequest> trace, const planner::Policy& policy,
             planner::ServingOptions options)
      : trace_(std::move(trace)), scheduler_(policy, std::move(options)) {}
  model::Decision next(double now, std::span<const model::StepOutcome> ended) override {
    for (; joined_ < trace_.size() && trace_[joined_].arrival_s <= now; ++joined_)
      CHECK(scheduler_.join(trace_[joined_]) == joined_);
    model::Decision decision = scheduler_.next(now, ended);
    if (!decision.step && joined_ < trace_.size())
      decision.until_s = std::min(decision.until_s, trace_[joined_].arrival_s);
    return decision;
  }

 private:
  std::vector<InferenceRequest> trace_;
  RequestScheduler scheduler_;
  std::size_t joined_ = 0;
};

std::vector<model::ServedStep> served(const planner::Plan& plan, model::Scheduler& scheduler) {
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  planner::GraphCache graphs(plan);
  model::evaluate_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
  return recorder.served();
}

TEST_CASE("planner/live requests: that join as they arrive get the steps of a trace known before") {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const planner::Plan plan = round % 2 == 0
                                   ? plan_of("tensor", {}, 0, {.heads = {2, 2}, .columns = {3, 3}})
                                   : pipeline_of(3);
    const auto trace = random_trace(random, 1 + round % 7);
    const std::int64_t chunk = round % 3 == 0 ? 0 : 1 + round % 9;
    for (const planner::Policy& policy : planner::policies()) {
      // A static batch waits for what it knows will come.
      if (!planner::serves(policy, chunk) || policy.name == "static") continue;
      CAPTURE(round);
      CAPTURE(policy.name);
      const planner::ServingOptions options{
          .chunk = chunk,
          .capacity = planner::wanted_capacity(trace, policy, chunk, 1 + round % 4)};
      RequestScheduler known(trace, policy, options);
      AsTheyCome coming(trace, policy, options);
      const auto expected = served(plan, known);
      const auto steps = served(plan, coming);
      REQUIRE(steps.size() == expected.size());
      for (std::size_t s = 0; s < steps.size(); ++s) {
        CHECK(steps[s].step == expected[s].step);
        CHECK(steps[s].end_s == expected[s].end_s);
      }
    }
  }
}

TEST_CASE("planner/live requests: a static batch takes what is there, of a trace what will come") {
  const planner::Policy& policy = planner::find_policy("static");
  const std::vector<InferenceRequest> trace{request_of(0, 4, 3), request_of(0, 4, 3),
                                            request_of(50, 4, 3)};
  const planner::ServingOptions options{.capacity = planner::wanted_capacity(trace, policy, 0)};
  RequestScheduler known(trace, policy, options);
  CHECK(known.next(0.0, {}).until_s == 50.0);
  RequestScheduler live(policy, options);
  CHECK_FALSE(live.next(0.0, {}).step);
  live.join(trace[0]);
  live.join(trace[1]);
  REQUIRE(live.next(0.0, {}).step);
}

TEST_CASE("planner/live requests: admission reserves for the limit, a prediction ends before") {
  const planner::Policy& policy = planner::find_policy("continuous");
  // Two of 64 positions each fit; with a limit of 100 tokens each takes two blocks of 64.
  for (const bool limited : {false, true}) {
    CAPTURE(limited);
    std::vector<InferenceRequest> trace{request_of(0, 8, 4), request_of(0, 8, 4)};
    if (limited) trace[0].max_tokens = trace[1].max_tokens = 100;
    RequestScheduler scheduler(
        trace, policy, {.capacity = {.rows = 16, .positions = 128, .sequences = 2, .steps = 1}});
    std::map<std::int32_t, int> sampled;
    std::size_t most = 0;
    double now = 0.0;
    auto step = scheduler.next(now, {}).step;
    for (std::int32_t number = 0; step; ++number) {
      for (const model::Segment& s : step->batch.segments) sampled[s.sequence] += s.sampled;
      most = std::max(most, step->batch.segments.size());
      const std::vector<model::StepOutcome> ended{{.step = number}};
      step = scheduler.next(now += 1.0, ended).step;
    }
    CHECK(most == (limited ? 1 : 2));
    CHECK(sampled == std::map<std::int32_t, int>{{0, 4}, {1, 4}});
  }
  CHECK_THROWS_WITH_AS(
      RequestScheduler({{.id = "long", .prompt_tokens = 8, .new_tokens = 1, .max_tokens = 500}},
                       policy, {.capacity = {.rows = 16, .positions = 128, .sequences = 2}}),
      doctest::Contains("needs steps of 8 rows and 512 positions"), Error);
}

TEST_CASE("planner/live requests: a run ends at the limit, or where it must if it ignores ends") {
  for (const bool ignore_eos : {false, true}) {
    InferenceRequest request = request_of(0, 2, 3);
    request.max_tokens = 5;
    request.ignore_eos = ignore_eos;
    RequestScheduler scheduler({request}, planner::find_policy("continuous"),
                               {.capacity = {.rows = 8, .positions = 64, .sequences = 1}});
    int tokens = 0;
    auto step = scheduler.next(0.0, {}).step;
    for (; step; ++tokens) {
      const std::vector<model::StepOutcome> ended{{.step = tokens, .tokens = {7}}};
      step = scheduler.next(0.0, ended).step;
    }
    CHECK(tokens == (ignore_eos ? 3 : 5));
  }
}

// Requests join and leave at random, and steps end in the order of their submission. What must
// hold: who stays gets every row and token, who leaves none after the next call, caches hold no
// more than the capacity, and nothing is left behind.
TEST_CASE("planner/live requests: who leaves at any time harms nobody") {
  std::mt19937 random(3);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int round = 0; round < 200; ++round) {
    for (const planner::Policy& policy : planner::policies()) {
      const std::int64_t chunk = policy.budget() ? draw(4, 9) : draw(0, 1) * draw(2, 9);
      const Capacity capacity{.rows = 40,
                              .positions = 64 * draw(1, 6),
                              .sequences = draw(1, 5),
                              .steps = policy.several() ? draw(1, 3) : 1};
      CAPTURE(round);
      CAPTURE(policy.name);
      RequestScheduler scheduler(policy, {.chunk = chunk, .capacity = capacity});
      struct Own {
        InferenceRequest request;
        std::int64_t read = 0;
        std::int64_t sampled = 0;
        bool left = false;
      };
      std::vector<Own> all;
      std::vector<std::pair<std::int32_t, model::Batch>> flying;
      model::BlockTable cache(capacity.positions / 64);
      std::int32_t made = 0;
      double now = 0.0;
      int to_come = draw(1, 12);
      const auto ask = [&](std::span<const model::StepOutcome> ended) {
        while (true) {
          const auto step = scheduler.next(now, ended).step;
          ended = {};
          if (!step) return;
          REQUIRE(step->batch.rows() <= capacity.rows);
          for (const model::CacheOp& op : step->batch.cache) cache.apply(op);
          for (const model::Segment& s : step->batch.segments) {
            Own& own = all.at(static_cast<std::size_t>(s.sequence));
            CHECK_FALSE(own.left);
            CHECK(s.past == own.read);
            own.read += s.rows;
            REQUIRE_NOTHROW((void)cache.append(s.sequence, {s.past, s.past + s.rows}));
          }
          flying.emplace_back(made++, step->batch);
          REQUIRE(std::ssize(flying) <= std::max<std::int64_t>(1, capacity.steps));
        }
      };
      while (to_come > 0 || !flying.empty() || scheduler.has_requests()) {
        now += 1.0;
        if (to_come > 0 && (flying.empty() || draw(0, 2) == 0)) {
          --to_come;
          all.push_back({.request = request_of(now, draw(1, 30), draw(1, 20))});
          CHECK(scheduler.join(all.back().request) + 1 == all.size());
          ask({});
        } else if (!all.empty() && draw(0, 3) == 0) {
          const auto number = static_cast<std::size_t>(draw(0, static_cast<int>(all.size()) - 1));
          all[number].left = true;
          scheduler.leave(number);
          ask({});
        } else if (!flying.empty()) {
          const auto [number, batch] = flying.front();
          flying.erase(flying.begin());
          for (const model::Segment& s : batch.segments)
            all.at(static_cast<std::size_t>(s.sequence)).sampled += s.sampled;
          const std::vector<model::StepOutcome> ended{{.step = number}};
          ask(ended);
        }
      }
      for (const Own& own : all) {
        if (own.left) continue;
        CHECK(own.read == own.request.positions());
        CHECK(own.sampled == own.request.new_tokens);
      }
      // All blocks are free for one that needs them all.
      scheduler.join(request_of(now, 1, capacity.positions));
      const auto step = scheduler.next(now, {}).step;
      REQUIRE(step);
      for (const model::CacheOp& op : step->batch.cache) cache.apply(op);
      CHECK(cache.free_blocks() == cache.size());
    }
  }
}

}  // namespace
}  // namespace tandem::test::live_requests_test
