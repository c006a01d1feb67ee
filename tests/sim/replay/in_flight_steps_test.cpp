// Several steps in flight, on SimGrid and analytically: any graphs, any scheduler.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "sim/replay/replay.hpp"
#include "tests/sim/random_simulations.hpp"
#include "tests/sim/sim_fixture.hpp"

namespace tandem::sim::testing::in_flight_steps_test {
namespace {

// A batch's sequence is the graph's number.
class NumberedGraphs : public model::GraphSource {
 public:
  explicit NumberedGraphs(std::vector<TaskGraph> graphs) : graphs_(std::move(graphs)) {}
  const TaskGraph& graph_of(const model::Batch& batch) override {
    return graphs_.at(static_cast<std::size_t>(batch.segments.at(0).sequence));
  }
  [[nodiscard]] std::int32_t count() const { return static_cast<std::int32_t>(graphs_.size()); }

 private:
  std::vector<TaskGraph> graphs_;
};

// Gives steps by the dice, never more than `most` in flight; and counts what it is told.
class DicingScheduler : public model::Scheduler {
 public:
  DicingScheduler(unsigned seed, std::int32_t graphs, std::int32_t most, std::int32_t steps)
      : dice_(seed), graphs_(graphs), most_(most), left_(steps) {}
  model::Decision next(double now, std::span<const model::StepOutcome> ended) override {
    CHECK(now >= now_);
    now_ = now;
    for (const model::StepOutcome& outcome : ended) {
      CHECK(std::ranges::find(flying_, outcome.step) != flying_.end());
      std::erase(flying_, outcome.step);
    }
    const bool full = static_cast<std::int32_t>(flying_.size()) >= most_;
    if (left_ == 0 || full) return {};
    if (dice_.in(0, 4) == 0) return {.step = {}, .until_s = now + dice_.scale(1e-5, 1e-1)};
    if (!flying_.empty() && dice_.in(0, 3) == 0) return {};
    --left_;
    flying_.push_back(made_++);
    return {.step = model::ScheduledStep{
                .not_before_s = now,
                .batch = {{{.sequence = dice_.in(0, graphs_ - 1), .past = 0, .rows = 2}}}}};
  }
  [[nodiscard]] bool done() const { return left_ == 0 && flying_.empty(); }

 private:
  Dice dice_;
  std::int32_t graphs_;
  std::int32_t most_;
  std::int32_t left_;
  std::int32_t made_ = 0;
  double now_ = 0.0;
  std::vector<std::int32_t> flying_;
};

// Tasks here and there, messages that the next task of their receiver waits for, and an epilogue on
// device 0 (if `has_epilogue`), to which some messages lead.
TaskGraph random_graph(Dice& dice, int devices, bool has_epilogue) {
  constexpr std::array kCompute{TaskKind::norm, TaskKind::attend, TaskKind::add, TaskKind::ffn_up};
  TaskGraph graph({{{.sequence = 0, .past = 0, .rows = 2}}});
  std::vector<TaskIndex> last(static_cast<std::size_t>(devices), -1);  // cpu task, by device
  const auto compute = [&](DeviceIndex at, std::vector<TaskIndex> after) {
    TaskIndex& before = last[static_cast<std::size_t>(at)];
    if (before >= 0 && dice.in(0, 2) > 0) after.push_back(before);
    const Task task{.kind = kCompute.at(static_cast<std::size_t>(dice.in(0, 3))),
                    .device = at,
                    .layer = 0,
                    .rows = {0, dice.in(1, 2)},
                    .columns = {0, dice.in(1, 6)}};
    before = graph.add(task, after);
  };
  const auto send = [&](DeviceIndex from, DeviceIndex to) {
    if (last[static_cast<std::size_t>(from)] < 0) compute(from, {});
    Task task = message(from, to, dice.in(1, 40000));
    task.input = task.output = {};
    return graph.add(task, {last[static_cast<std::size_t>(from)]});
  };
  compute(0, {});
  for (int i = dice.in(0, 20); i > 0; --i) {
    const DeviceIndex at = dice.in(0, devices - 1);
    if (devices == 1 || dice.in(0, 1) == 0) {
      compute(at, {});
    } else {
      const DeviceIndex from = (at + dice.in(1, devices - 1)) % devices;
      compute(at, {send(from, at)});
    }
  }
  std::vector<TaskIndex> back;
  for (int i = devices > 1 ? dice.in(has_epilogue ? 1 : 0, 3) : 0; i > 0; --i)
    back.push_back(send(dice.in(1, devices - 1), 0));
  if (has_epilogue) {
    graph.begin_epilogue();
    last[0] = -1;
  }
  for (const TaskIndex message : back) compute(0, {message});
  for (int i = dice.in(0, 3); i > 0; --i) compute(0, {});
  if (dice.in(0, 1) == 0)
    graph.add({.kind = TaskKind::sample, .rows = {0, 1}, .columns = {0, 6}}, {});
  return graph;
}

TEST_CASE("sim/steps in flight: equals the analytic evaluator to 1e-9 on 300 random runs") {
  std::size_t spans = 0;
  std::size_t overlaps = 0;  // of a step with the one before
  for (unsigned seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Dice dice(seed);
    const model::Cluster cluster = random_cluster(dice, dice.in(1, 5));
    const model::CostModel costs = random_costs(dice, cluster);
    std::vector<TaskGraph> list;
    for (int i = dice.in(1, 4); i > 0; --i)
      list.push_back(random_graph(dice, cluster.size(), dice.in(0, 3) > 0));
    NumberedGraphs graphs(std::move(list));
    const int most = dice.in(1, 5);
    const int steps = dice.in(1, 12);
    DicingScheduler one(seed, graphs.count(), most, steps);
    DicingScheduler other(seed, graphs.count(), most, steps);
    model::RunRecorder expected(cluster, 0, true);
    model::RunRecorder found(cluster, 0, true);
    model::evaluate_scheduled(cluster, costs, one, graphs, expected);
    replay_scheduled(cluster, costs, other, graphs, found);
    CHECK(one.done());
    const Spans a = spans_of(expected, Copies::with);
    const Spans b = spans_of(found, Copies::with);
    CHECK(a.size() == b.size());
    CHECK(differences(a, b) == 0);
    spans += a.size();
    for (std::size_t s = 1; s < expected.served().size(); ++s) {
      CHECK(same(expected.served()[s].step.not_before_s, found.served()[s].step.not_before_s));
      if (expected.served()[s].step.not_before_s < expected.served()[s - 1].end_s) ++overlaps;
    }
  }
  CHECK(spans > 10000);
  CHECK(overlaps > 300);
}

// A lane's actions follow one another, and a step's epilogue comes after what it waits for.
TEST_CASE(
    "sim/steps in flight: a lane does one thing at a time, in the order of submission but "
    "epilogues") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    Dice dice(seed);
    const model::Cluster cluster = random_cluster(dice, dice.in(2, 5));
    const model::CostModel costs = random_costs(dice, cluster);
    NumberedGraphs graphs({random_graph(dice, cluster.size(), true)});
    const TaskIndex epilogue = graphs.graph_of({{{.sequence = 0}}}).epilogue();
    DicingScheduler scheduler(seed, 1, 4, 10);
    model::RunRecorder recorder(cluster, 0, true);
    model::evaluate_scheduled(cluster, costs, scheduler, graphs, recorder);
    for (DeviceIndex d = 0; d < cluster.size(); ++d) {
      std::vector<Span> lane;
      for (const Span& span : recorder.trace().spans) {
        if (span.device == d && span.lane == model::LaneKind::cpu) lane.push_back(span);
      }
      std::ranges::stable_sort(lane, {}, [](const Span& s) { return std::pair(s.start, s.end); });
      for (std::size_t i = 1; i < lane.size(); ++i) {
        CHECK(lane[i].start >= lane[i - 1].end);
        // A worker has no epilogue: its steps do not mix.
        if (d != 0) CHECK(lane[i].step >= lane[i - 1].step);
      }
      std::int32_t step = 0;  // of the forward parts, and of the epilogues
      std::int32_t finished = 0;
      for (const Span& span : lane) {
        const bool last = span.kind == TaskKind::deliver ? false : span.task >= epilogue;
        if (d != 0 || span.kind == TaskKind::deliver) continue;
        CHECK(span.step >= (last ? finished : step));
        (last ? finished : step) = span.step;
      }
    }
  }
}

}  // namespace
}  // namespace tandem::sim::testing::in_flight_steps_test
