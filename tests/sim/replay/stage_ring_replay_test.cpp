// The law of recurrent pipelines on SimGrid.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/replay/replay.hpp"
#include "tests/support/recurrent_fixture.hpp"

namespace tandem::sim::testing::stage_ring_replay_test {
namespace {

using namespace tandem::test;

double period_of(const planner::Plan& plan, std::int32_t samples, std::int32_t tokens) {
  RoundAndRound scheduler(samples, kRingPast, tokens);
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  planner::GraphCache graphs(plan);
  replay_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
  return steady_period(token_ends(recorder), samples);
}

}  // namespace

TEST_CASE("sim/recurrent: 100 random rings have the rate of the law, to 1e-9") {
  int rounds_bound = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    Draw draw(seed);
    const planner::Plan plan = random_ring(draw, 5);
    const model::Ring ring = planner::ring_of(plan, kRingPast);
    const int samples = random_samples(draw, ring, 8);
    CAPTURE(samples);
    const double law = model::token_period(ring, samples);
    rounds_bound += law > model::ring_bottleneck(ring).seconds ? 1 : 0;
    double found = 0.0;
    for (int rounds = 12; rounds <= 12 * 64; rounds *= 8) {
      found = period_of(plan, samples, rounds * samples);
      if (std::abs(found - law) <= 1e-9 * law) break;
    }
    CHECK(std::abs(found - law) <= 1e-9 * law);
  }
  CHECK(rounds_bound > 20);
  CHECK(rounds_bound < 80);
}

TEST_CASE("sim/recurrent: on one medium that all share the law is a bound of the rate") {
  int media = 0;  // how often it is the medium that binds
  for (unsigned seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Draw draw(seed);
    planner::Plan plan = random_ring(draw, 5);
    const int count = plan.cluster.size();
    std::vector<model::Edge> edges;
    for (const model::Device& device : plan.cluster.devices())
      edges.push_back({device.name, "hub", {{0, model::Direction::none}}});
    plan.cluster = {"air",
                    plan.cluster.devices(),
                    {"hub"},
                    {{"air", model::Seconds{draw.scale(1e-5, 1e-3)},
                      model::BytesPerSecond{draw.scale(1e4, 1e6)}, model::Sharing::shared}},
                    edges};
    const model::Ring ring = planner::ring_of(plan, kRingPast);
    const int samples = draw.in(1, 6);
    const double law = model::token_period(ring, samples);
    media += model::ring_bottleneck(ring).name == "link air" && count > 2 ? 1 : 0;
    // The mean over many rounds, whether or not they repeat themselves.
    RoundAndRound scheduler(samples, kRingPast, 60 * samples);
    model::RunRecorder recorder(plan.cluster, plan.master, false);
    planner::GraphCache graphs(plan);
    replay_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
    const std::vector<double> ends = token_ends(recorder);
    const auto m = static_cast<std::size_t>(samples);
    const double found = (ends[50 * m] - ends[10 * m]) / static_cast<double>(40 * m);
    // Of a medium's messages a few more than M rounds' may have passed in this time.
    CHECK(found >= law * (1.0 - 1.0 / 40.0));
    if (samples == 1) CHECK(std::abs(found - law) <= 1e-9 * law);
  }
  CHECK(media > 5);
}

}  // namespace tandem::sim::testing::stage_ring_replay_test
