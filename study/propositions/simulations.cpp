#include "study/propositions/simulations.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/replay/replay.hpp"
#include "study/propositions/draw_numbers.hpp"
#include "study/steady_state/recurrence.hpp"
#include "study/steady_state/schedule_graph.hpp"

namespace tandem::study {
namespace {

constexpr model::Seconds kTick{1e-3};
constexpr std::size_t kSimulatedTokens = 5;
// One draw in so many is repeated on a shared link.
constexpr std::int64_t kShared = 10;

LayeredSchedule draw_schedule(DrawNumbers& numbers) {
  LayeredSchedule drawn;
  drawn.layers = numbers.in(1, 4);
  drawn.reduce = numbers.in(1, 39);
  drawn.window = numbers.window();
  drawn.release = numbers.rule();
  drawn.retain = numbers.in(0, 1) == 0 ? 0 : numbers.in(1, 4);
  for (std::int64_t d = numbers.in(1, 4); d > 0; --d)
    drawn.devices.push_back(
        {numbers.in(1, 39), numbers.in(1, 39), numbers.in(1, 39), numbers.in(1, 39)});
  return drawn;
}

std::vector<double> expected_starts(const MemorySchedule& schedule) {
  const std::size_t blocks = schedule.blocks();
  const std::size_t devices = schedule.devices.size();
  std::vector<double> starts(kSimulatedTokens * devices * blocks);
  Recurrence run(schedule);
  for (std::size_t token = 0; token < kSimulatedTokens; ++token) {
    run.token([&](const BlockEvent& event) {
      starts[(token * devices + event.device) * blocks + event.block] =
          static_cast<double>(event.start);
    });
  }
  return starts;
}

SimulatedDraw simulate(const LayeredSchedule& drawn, bool shared_link) {
  const MemorySchedule schedule = to_schedule(drawn);
  const std::vector<double> expected = expected_starts(schedule);
  const std::vector<double> found = simulated_starts(schedule, kSimulatedTokens, shared_link);
  SimulatedDraw result{.text = "devices " + std::to_string(drawn.devices.size()) + " L " +
                               std::to_string(drawn.layers) + " w " + window_text(drawn.window) +
                               ' ' + rule_text(drawn.release) + " T " +
                               std::to_string(drawn.retain),
                       .network = shared_link ? "shared" : "apart",
                       .starts = static_cast<std::int64_t>(expected.size()),
                       .end_ticks = expected.back(),
                       .simulated_end_ticks = found.back()};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double scale = std::max(expected[i], found[i]);
    if (scale > 0.0)
      result.difference = std::max(result.difference, std::abs(expected[i] - found[i]) / scale);
  }
  return result;
}

}  // namespace

std::vector<double> simulated_starts(const MemorySchedule& schedule, std::size_t tokens,
                                     bool shared_link) {
  const ScheduleGraph made = to_task_graph(
      schedule, tokens, kTick, shared_link ? ScheduleNetwork::shared : ScheduleNetwork::apart);
  model::OneStep steps(made.graph);
  model::RunRecorder recorder(made.cluster, 0, true);
  sim::replay(made.cluster, made.costs, steps, recorder);
  std::vector<double> by_task(static_cast<std::size_t>(made.graph.size()));
  for (const model::Span& span : recorder.trace().spans)
    by_task[static_cast<std::size_t>(span.task)] = span.start / kTick.value();
  std::vector<double> starts;
  starts.reserve(made.computes.size());
  for (const model::TaskIndex task : made.computes)
    starts.push_back(by_task[static_cast<std::size_t>(task)]);
  return starts;
}

Simulations run_simulations(std::int64_t draws, std::uint64_t seed) {
  Simulations result;
  DrawNumbers numbers(seed ^ 0x51e9U);
  for (std::int64_t i = 0; i < draws; ++i) {
    const LayeredSchedule drawn = draw_schedule(numbers);
    result.apart.push_back(simulate(drawn, false));
    const double difference = result.apart.back().difference;
    result.worst = std::max(result.worst, difference);
    if (!(difference <= kSimulationTolerance)) ++result.different;
    if (i % kShared != 0) continue;
    result.shared.push_back(simulate(drawn, true));
    if (!(result.shared.back().difference <= kSimulationTolerance)) ++result.contended;
  }
  return result;
}

}  // namespace tandem::study
