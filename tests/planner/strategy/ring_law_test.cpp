// The law of recurrent pipelines against the analytic evaluator.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/base/error.hpp"
#include "model/predict/pipeline_law.hpp"
#include "tests/support/recurrent_fixture.hpp"

namespace tandem::test::ring_law_test {
namespace {

std::vector<double> ends_of(const planner::Plan& plan, std::int32_t samples, std::int32_t tokens) {
  RoundAndRound scheduler(samples, kRingPast, tokens);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  planner::GraphCache graphs(plan);
  model::evaluate_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
  return token_ends(recorder);
}

model::Ring ring(std::vector<model::RingStage> stages) { return {.stages = std::move(stages)}; }

}  // namespace

TEST_CASE("model/recurrent: M tokens a round until a stage, a channel or a link is always busy") {
  model::Ring three =
      ring({{"a", 4.0, 0.5, 1.0, 1.5}, {"b", 2.0, 0.0, 1.0, 0.0}, {"c", 3.0, 1, 0, 1}});
  CHECK(model::round_time(three) == 4 + 3 + 2 + 1 + 3 + 2);
  SUBCASE("15 a round, 4 of a: 1, 2, 3 samples wait for the round, 4 and more for a") {
    for (const std::int64_t samples : {1, 2, 3})
      CHECK(model::token_period(three, samples) ==
            doctest::Approx(15.0 / static_cast<double>(samples)));
    for (const std::int64_t samples : {4, 5, 40}) CHECK(model::token_period(three, samples) == 4.0);
    CHECK(model::ring_bottleneck(three).name == "device a");
    CHECK(model::least_samples(three) == 4);
  }
  SUBCASE("a channel that is occupied for 5 + 0.5") {
    three.stages[0].wire_s = 5.0;
    CHECK(model::ring_bottleneck(three).name == "channel from a");
    CHECK(model::token_period(three, 10) == 5.5);
    CHECK(model::least_samples(three) == 4);  // 19 / 5.5
  }
  SUBCASE("a link that all messages share, for 7.5 a round: two samples saturate it") {
    three.other = {"link air", 7.5};
    CHECK(model::ring_bottleneck(three).name == "link air");
    CHECK(model::token_period(three, 3) == 7.5);
    CHECK(model::least_samples(three) == 2);
  }
  SUBCASE("what stages learn late makes the round longer") {
    three.delay_s = 2.0;
    CHECK(model::token_period(three, 1) == 17.0);
    CHECK(model::least_samples(three) == 5);
  }
  CHECK_THROWS((void)model::token_period(three, 0));
}

TEST_CASE("planner/ring law: 2,000 random rings have the rate that it says, to 1e-9" *
          doctest::test_suite("long")) {
  int rounds_bound = 0;  // by how long a round takes; the others by what is always busy
  int channel_bound = 0;
  int told_late = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    CAPTURE(seed);
    Draw draw(seed);
    const planner::Plan plan = random_ring(draw, 6);
    const model::Ring ring = planner::ring_of(plan, kRingPast);
    const auto samples = draw.in(
        1, static_cast<int>(std::min<std::int64_t>(14, 2 + 2 * model::least_samples(ring))));
    CAPTURE(samples);
    const double law = model::token_period(ring, samples);
    rounds_bound += law > model::ring_bottleneck(ring).seconds ? 1 : 0;
    channel_bound += model::ring_bottleneck(ring).name.find("channel") == 0 ? 1 : 0;
    told_late += ring.delay_s > 1e-12 ? 1 : 0;
    // Where two terms are nearly equal, what the start has left behind takes long to go.
    double found = 0.0;
    for (int rounds = 12; rounds <= 12 * 8 * 8 * 8; rounds *= 8) {
      const std::vector<double> ends = ends_of(plan, samples, rounds * samples);
      found = steady_period(ends, samples);
      if (std::abs(found - law) <= 1e-9 * law) break;
    }
    CHECK(std::abs(found - law) <= 1e-9 * law);
  }
  CHECK(rounds_bound > 400);
  CHECK(channel_bound > 100);
  CHECK(told_late > 2);
}

}  // namespace tandem::test::ring_law_test
