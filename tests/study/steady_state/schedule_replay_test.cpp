#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "study/steady_state/recurrence.hpp"
#include "study/steady_state/schedule_graph.hpp"
#include "tests/sim/sim_fixture.hpp"
#include "tests/study/steady_state/steady_state_draws.hpp"

namespace tandem::sim::testing::schedule_replay_test {
namespace {

constexpr double kTick = 1e-3;
constexpr std::size_t kTokens = 4;

// The largest relative difference of any block's start.
double difference(const study::MemorySchedule& schedule, study::ScheduleNetwork network) {
  const study::ScheduleGraph made =
      study::to_task_graph(schedule, kTokens, model::Seconds{kTick}, network);
  GraphSteps steps({made.graph});
  const Spans spans = simulated(made.cluster, made.costs, steps);
  study::Recurrence run(schedule);
  double largest = 0.0;
  for (std::size_t token = 0; token < kTokens; ++token) {
    run.token([&](const study::BlockEvent& event) {
      const double expected = static_cast<double>(event.start) * kTick;
      const double found = spans.at({0, made.compute(token, event.device, event.block)}).start;
      const double scale = std::max(expected, found);
      if (scale > 0.0) largest = std::max(largest, std::abs(expected - found) / scale);
    });
  }
  return largest;
}

}  // namespace

TEST_CASE("study/steady state: SimGrid starts every block when the recurrence does, to 1e-9") {
  study::testing::ScheduleDice dice(21);
  int different = 0;
  for (int i = 0; i < 60; ++i)
    if (!(difference(dice.any(4), study::ScheduleNetwork::apart) <= 1e-9)) ++different;
  CHECK(different == 0);
}

TEST_CASE("study/steady state: on a shared link two devices' all-reduces contend") {
  const study::MemorySchedule two{.devices = {{.blocks = {{4, 1}}}, {.blocks = {{4, 1}}}},
                                  .reduce = {8}};
  const study::MemorySchedule one{.devices = {{.blocks = {{4, 1}}}}, .reduce = {8}};
  CHECK(difference(two, study::ScheduleNetwork::apart) <= 1e-9);
  CHECK(difference(two, study::ScheduleNetwork::shared) > 0.1);
  CHECK(difference(one, study::ScheduleNetwork::shared) <= 1e-9);
}

}  // namespace tandem::sim::testing::schedule_replay_test
