// Runs that a scheduler drives, on SimGrid and analytically.

#include <doctest/doctest.h>

#include <random>

#include "model/predict/analytic.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "sim/replay/replay.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::served_replay_test {
namespace {

using planner::InferenceRequest;

void check_equal(const model::RunRecorder& found, const model::RunRecorder& expected) {
  REQUIRE(found.served().size() == expected.served().size());
  for (std::size_t s = 0; s < found.served().size(); ++s) {
    const model::ServedStep& one = found.served()[s];
    const model::ServedStep& other = expected.served()[s];
    CHECK(one.step.batch.segments == other.step.batch.segments);
    CHECK(one.step.ended == other.step.ended);
    CHECK(one.step.not_before_s == doctest::Approx(other.step.not_before_s).epsilon(1e-9));
    REQUIRE(one.sampled_s.size() == other.sampled_s.size());
    for (std::size_t i = 0; i < one.sampled_s.size(); ++i)
      CHECK(one.sampled_s[i] == doctest::Approx(other.sampled_s[i]).epsilon(1e-9));
  }
  CHECK(found.devices()[0].bytes_sent == expected.devices()[0].bytes_sent);
}

TEST_CASE("sim/served: SimGrid and the fair and analytic evaluators serve alike, to 1e-9") {
  std::mt19937 random(11);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int round = 0; round < 40; ++round) {
    const planner::Plan plan = pipeline_of(draw(2, 5));
    const int steps = draw(1, 5);
    std::vector<InferenceRequest> requests;
    // From 2^14 s on a double has no time 1e-12 s later.
    double arrival = round % 4 == 3 ? 3e4 : 0.0;
    for (int i = draw(1, 5); i > 0; --i) {
      requests.push_back({.id = std::string("r").append(std::to_string(i)),
                          .arrival_s = arrival,
                          .prompt_tokens = draw(1, 20),
                          .new_tokens = draw(1, 10)});
      if (draw(0, 3) > 0) arrival += draw(1, 40) * 1e-2;
    }
    const std::int64_t chunk = draw(0, 1) == 0 ? 0 : draw(1, 6);
    for (const planner::Policy& policy : planner::policies()) {
      if (!planner::serves(policy, chunk)) continue;
      CAPTURE(round);
      CAPTURE(policy.name);
      CAPTURE(chunk);
      CAPTURE(steps);
      const planner::ServingOptions options{
          .chunk = chunk, .capacity = planner::wanted_capacity(requests, policy, chunk, steps)};
      planner::GraphCache graphs(plan);
      const auto served = [&](const auto& evaluate) {
        planner::RequestScheduler scheduler(requests, policy, options);
        model::RunRecorder recorder(plan.cluster, plan.master, false);
        evaluate(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
        return recorder;
      };
      const model::RunRecorder analytic = served(model::evaluate_scheduled);
      check_equal(served(sim::evaluate_fair_scheduled), analytic);
      if (round % 8 != 0) continue;
      check_equal(served([](const auto& cluster, const auto& costs, auto& scheduler, auto& source,
                            auto& recorder) {
                    sim::replay_scheduled(cluster, costs, scheduler, source, recorder);
                  }),
                  analytic);
    }
  }
}

// Four requests of one prompt token that come at once; tokens a second over all.
double rate(const planner::Plan& plan, std::size_t sequences, std::int64_t steps) {
  const std::vector<InferenceRequest> requests = [&] {
    std::vector<InferenceRequest> all;
    for (std::size_t i = 0; i < sequences; ++i)
      all.push_back({.id = std::to_string(i), .prompt_tokens = 1, .new_tokens = 60});
    return all;
  }();
  const planner::Policy& policy = planner::find_policy("continuous");
  planner::RequestScheduler scheduler(
      requests, policy, {.capacity = planner::wanted_capacity(requests, policy, 0, steps)});
  planner::GraphCache graphs(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  sim::replay_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
  model::Result result;
  planner::fill_requests(requests, recorder.served(), result);
  return *result.metrics.throughput_tokens_per_s;
}

TEST_CASE("sim/served: four steps in flight on four devices are three times as fast as one") {
  const planner::Plan plan = pipeline_of(4);
  const double one = rate(plan, 1, 1);
  CHECK(rate(plan, 4, 4) >= 3.0 * one);
  CHECK(rate(plan, 2, 2) >= 1.7 * one);
  CHECK(rate(plan, 4, 1) < rate(plan, 4, 4));
}

// From its arrival to its first token, of one request whose prompt is read in chunks of four rows.
double first_token(const planner::Plan& plan, std::int64_t steps, bool simgrid) {
  const std::vector<InferenceRequest> requests{
      {.id = "long", .prompt_tokens = 48, .new_tokens = 2}};
  const planner::Policy& policy = planner::find_policy("continuous");
  const planner::ServingOptions options{
      .chunk = 4, .capacity = planner::wanted_capacity(requests, policy, 4, steps)};
  planner::RequestScheduler scheduler(requests, policy, options);
  planner::GraphCache graphs(plan);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  if (simgrid) {
    sim::replay_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
  } else {
    model::evaluate_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
  }
  REQUIRE(recorder.served().size() == 13);
  // Each position once, and in order; the last chunk and the token after it are sampled.
  std::int32_t past = 0;
  for (const model::ServedStep& step : recorder.served()) {
    REQUIRE(step.step.batch.segments.size() == 1);
    CHECK(step.step.batch.segments[0].past == past);
    past += step.step.batch.segments[0].rows;
    CHECK(step.sampled_s.size() == (past < 48 ? 0U : 1U));
  }
  return recorder.served()[11].sampled_s.front();
}

TEST_CASE("sim/served: chunks of one prompt follow each other through a pipeline") {
  const planner::Plan plan = pipeline_of(4);
  const double one = first_token(plan, 1, false);
  const double four = first_token(plan, 4, false);
  CHECK(first_token(plan, 1, true) == doctest::Approx(one).epsilon(1e-9));
  CHECK(first_token(plan, 4, true) == doctest::Approx(four).epsilon(1e-9));
  // 12 chunks one after the other; or the first, and 11 more a stage of four later.
  CHECK(four < one * (1.0 + 11.0 / 3.0) / 12.0);
}

}  // namespace
}  // namespace tandem::test::served_replay_test
