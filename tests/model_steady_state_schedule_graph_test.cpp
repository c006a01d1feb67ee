#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "model/analytic.hpp"
#include "model/steady_state/recurrence.hpp"
#include "model/steady_state/schedule_graph.hpp"
#include "model/steady_state/steadiness.hpp"
#include "steady_state_draws.hpp"

namespace tandem::model::testing {
namespace {

class OneStep : public Steps {
 public:
  explicit OneStep(const TaskGraph& graph) : graph_(graph) {}
  [[nodiscard]] std::int32_t count() const override { return 1; }
  const TaskGraph& graph(std::int32_t) override { return graph_; }

 private:
  const TaskGraph& graph_;
};

constexpr double kTick = 1e-3;

Trace evaluated(const ScheduleGraph& made) {
  OneStep steps(made.graph);
  RunRecorder recorder(made.cluster, 0, true);
  evaluate_analytic(made.cluster, made.costs, steps, recorder);
  return recorder.trace();
}

}  // namespace

TEST_CASE("model/schedule graph: evaluated, it starts every block when the recurrence does") {
  ScheduleDice dice(13);
  int wrong = 0;
  for (int i = 0; i < 300; ++i) {
    const Schedule schedule = dice.any(4);
    const ScheduleGraph made = to_task_graph(schedule, 4, Seconds{kTick}, ScheduleNetwork::apart);
    std::vector<double> starts(static_cast<std::size_t>(made.graph.size()));
    std::vector<double> stalls(starts.size());
    for (const Span& span : evaluated(made).spans) {
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

TEST_CASE("model/schedule graph: on a shared link all-reduces of several devices take longer") {
  const Schedule schedule{.devices = {{.blocks = {{4, 1}}}, {.blocks = {{4, 1}}}}, .reduce = {8}};
  const auto last = [&](ScheduleNetwork network) {
    const ScheduleGraph made = to_task_graph(schedule, 3, Seconds{kTick}, network);
    return made.cluster.links().size();
  };
  CHECK(last(ScheduleNetwork::apart) == 2);
  CHECK(last(ScheduleNetwork::shared) == 1);
}

TEST_CASE("model/schedule graph: times beyond 2^30 ticks are the caller's error") {
  const Schedule schedule{.devices = {{.blocks = {{Ticks{1} << 31, 1}}}}, .reduce = {8}};
  CHECK_THROWS_AS(to_task_graph(schedule, 1, Seconds{kTick}, ScheduleNetwork::apart),
                  std::logic_error);
}

namespace {

Span compute(std::int32_t step, TaskIndex task, DeviceIndex device, double start, double end,
             double stall) {
  return {.step = step,
          .task = task,
          .kind = TaskKind::ffn_up,
          .lane = LaneKind::cpu,
          .device = device,
          .layer = 0,
          .start = start,
          .end = end,
          .stall = stall};
}

Span load(std::int32_t step, DeviceIndex device, double start, double end) {
  return {.step = step,
          .task = 9,
          .kind = TaskKind::load,
          .lane = LaneKind::disk,
          .device = device,
          .layer = 0,
          .start = start,
          .end = end};
}

}  // namespace

TEST_CASE("model/steadiness: a stall counts by what it delays the slowest device") {
  // Each step 10 s: device 0 computes 4 s after a stall of 3 s, device 1 computes 6 s.
  Trace trace{.devices = {"a", "b"}, .spans = {}};
  for (std::int32_t step = 0; step < 3; ++step) {
    const double at = 10.0 * step;
    trace.spans.push_back(compute(step, 0, 0, at + 6.0, at + 10.0, 3.0));
    trace.spans.push_back(compute(step, 1, 1, at + 3.0, at + 9.0, 0.0));
    trace.spans.push_back(load(step, 0, at, at + 8.0));
  }
  SUBCASE("7 - 6 = 1 s of 10, slack 10 - 1 - 8 = 1 s") {
    const auto found = steadiness(trace, 0, 0.01);
    REQUIRE(found.has_value());
    CHECK(found->stall_fraction == doctest::Approx(0.1));
    CHECK(found->slack_s == doctest::Approx(1.0));
    CHECK(found->verdict == "stalling");
  }
  SUBCASE("hidden behind the slower device: nothing") {
    for (Span& span : trace.spans) span.stall = std::min(span.stall, 2.0);
    const auto found = steadiness(trace, 0, 0.01);
    REQUIRE(found.has_value());
    CHECK(found->stall_fraction == 0.0);
    CHECK(found->verdict == "steady");
  }
  SUBCASE("nothing loaded, or a single step: no answer") {
    CHECK_FALSE(steadiness(trace, 2, 0.01).has_value());
    std::erase_if(trace.spans, [](const Span& span) { return span.kind == TaskKind::load; });
    CHECK_FALSE(steadiness(trace, 0, 0.01).has_value());
  }
}

TEST_CASE("model/steadiness: of a graph's run, it is the recurrence's stall fraction") {
  // Every token's blocks as steps of their own: one block a token.
  const Schedule schedule{.devices = {{.blocks = {{5, 11}}, .window = 1}}, .reduce = {7}};
  const SteadyState found = find_steady_state(schedule);
  CHECK(found.stall_fraction() == doctest::Approx(4.0 / 16.0));
  Trace trace = evaluated(to_task_graph(schedule, 6, Seconds{kTick}, ScheduleNetwork::apart));
  std::int32_t computed = 0;
  std::int32_t loaded = 0;
  for (Span& span : trace.spans) {
    if (span.kind == TaskKind::add) {
      span.kind = TaskKind::ffn_up;
      span.step = computed++;
    } else if (span.kind == TaskKind::load) {
      span.step = loaded++;
    }
  }
  std::erase_if(trace.spans, [](const Span& span) { return span.kind == TaskKind::release; });
  const auto steady = steadiness(trace, 1, 1e-9);
  REQUIRE(steady.has_value());
  CHECK(steady->stall_fraction == doctest::Approx(found.stall_fraction()));
  CHECK(steady->slack_s == doctest::Approx((12.0 - 11.0) * kTick));
}

}  // namespace tandem::model::testing
