#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "model/steady_state/recurrence.hpp"
#include "model/steady_state/schedule_graph.hpp"
#include "sim_fixture.hpp"
#include "steady_state_draws.hpp"

namespace tandem::sim::testing {
namespace {

constexpr double kTick = 1e-3;
constexpr std::size_t kTokens = 4;

// The largest relative difference of any block's start.
double difference(const model::Schedule& schedule, model::ScheduleNetwork network) {
  const model::ScheduleGraph made =
      model::to_task_graph(schedule, kTokens, model::Seconds{kTick}, network);
  GraphSteps steps({made.graph});
  const Spans spans = simulated(made.cluster, made.costs, steps);
  model::Recurrence run(schedule);
  double largest = 0.0;
  for (std::size_t token = 0; token < kTokens; ++token) {
    run.token([&](const model::BlockEvent& event) {
      const double expected = static_cast<double>(event.start) * kTick;
      const double found = spans.at({0, made.compute(token, event.device, event.block)}).start;
      const double scale = std::max(expected, found);
      if (scale > 0.0) largest = std::max(largest, std::abs(expected - found) / scale);
    });
  }
  return largest;
}

}  // namespace

TEST_CASE("sim/steady state: SimGrid starts every block when the recurrence does, to 1e-9") {
  model::testing::ScheduleDice dice(21);
  int different = 0;
  for (int i = 0; i < 60; ++i)
    if (!(difference(dice.any(4), model::ScheduleNetwork::apart) <= 1e-9)) ++different;
  CHECK(different == 0);
}

TEST_CASE("sim/steady state: on a shared link two devices' all-reduces contend") {
  const model::Schedule two{.devices = {{.blocks = {{4, 1}}}, {.blocks = {{4, 1}}}}, .reduce = {8}};
  const model::Schedule one{.devices = {{.blocks = {{4, 1}}}}, .reduce = {8}};
  CHECK(difference(two, model::ScheduleNetwork::apart) <= 1e-9);
  CHECK(difference(two, model::ScheduleNetwork::shared) > 0.1);
  CHECK(difference(one, model::ScheduleNetwork::shared) <= 1e-9);
}

}  // namespace tandem::sim::testing
