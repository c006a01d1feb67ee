#include "study/steady_state/schedule_graph.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "model/predict/analytic.hpp"
#include "study/steady_state/recurrence.hpp"
#include "tests/study/steady_state/steady_state_draws.hpp"

namespace tandem::study::testing::schedule_graph_test {
namespace {

constexpr double kTick = 1e-3;

model::Trace evaluated(const ScheduleGraph& made) {
  model::OneStep steps(made.graph);
  model::RunRecorder recorder(made.cluster, 0, true);
  model::evaluate_analytic(made.cluster, made.costs, steps, recorder);
  return recorder.trace();
}

}  // namespace

TEST_CASE("study/schedule graph: evaluated, it starts every block when the recurrence does") {
  ScheduleDice dice(13);
  int wrong = 0;
  for (int i = 0; i < 300; ++i) {
    const MemorySchedule schedule = dice.any(4);
    const ScheduleGraph made =
        to_task_graph(schedule, 4, model::Seconds{kTick}, ScheduleNetwork::apart);
    std::vector<double> starts(static_cast<std::size_t>(made.graph.size()));
    std::vector<double> stalls(starts.size());
    for (const model::Span& span : evaluated(made).spans) {
      starts[static_cast<std::size_t>(span.task)] = span.start;
      stalls[static_cast<std::size_t>(span.task)] = span.stall;
    }
    Recurrence run(schedule);
    for (std::size_t token = 0; token < 4; ++token) {
      run.token([&](const BlockEvent& event) {
        const auto task = static_cast<std::size_t>(made.compute(token, event.device, event.block));
        const auto same = [](double a, Ticks b) {
          return std::abs(a - static_cast<double>(b) * kTick) <=
                 1e-9 * std::max(1.0, static_cast<double>(b) * kTick);
        };
        if (!same(starts[task], event.start) || !same(stalls[task], event.stall)) ++wrong;
      });
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("study/schedule graph: on a shared link all-reduces of several devices take longer") {
  const MemorySchedule schedule{.devices = {{.blocks = {{4, 1}}}, {.blocks = {{4, 1}}}},
                                .reduce = {8}};
  const auto last = [&](ScheduleNetwork network) {
    const ScheduleGraph made = to_task_graph(schedule, 3, model::Seconds{kTick}, network);
    return made.cluster.links().size();
  };
  CHECK(last(ScheduleNetwork::apart) == 2);
  CHECK(last(ScheduleNetwork::shared) == 1);
}

TEST_CASE("study/schedule graph: times beyond 2^30 ticks are the caller's error") {
  const MemorySchedule schedule{.devices = {{.blocks = {{Ticks{1} << 31, 1}}}}, .reduce = {8}};
  CHECK_THROWS_AS(to_task_graph(schedule, 1, model::Seconds{kTick}, ScheduleNetwork::apart),
                  std::logic_error);
}

}  // namespace tandem::study::testing::schedule_graph_test
