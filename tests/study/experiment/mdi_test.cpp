// MDI-LLM's runs as its tables are made again from.

#include "study/experiment/mdi.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/graph/work.hpp"
#include "sim/platform/platform.hpp"
#include "sim/replay/replay.hpp"
#include "tests/model/model_fixtures.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::study::mdi_test {
namespace {

constexpr MdiBoard kBoard{.flop_rate = 350e9,
                          .block_s = 0.008,
                          .cached_block_s = 0.004,
                          .message_s = 0.009,
                          .message_s_per_byte = 30e-9};

model::Cluster boards() {
  return sim::read_platform(
             tandem::testing::in_sources("scenarios/platforms/jetson-tx2x3.xml").string())
      .cluster;
}

MdiRun nanogpt(std::int64_t samples) {
  return {.model = "nanogpt-7",
          .blocks = {1, 3, 3},
          .samples = samples,
          .tokens = 150,
          .caches = false,
          .head_on_last = true,
          .sends_in_loop = true};
}

}  // namespace

TEST_CASE("study/mdi: the context grows by a token a step up to the model's, samples in turn") {
  MdiRounds rounds(nanogpt(2), 8, 128);
  std::vector<std::int32_t> rows;  // of the first sample
  std::vector<model::StepOutcome> ended;
  std::int32_t steps = 0;
  for (double now = 0.0; steps == 0 || !ended.empty(); now += 1.0) {  // both samples at a time
    std::vector<model::StepOutcome> begun;
    for (model::Decision decision = rounds.next(now, ended); decision.step;
         decision = rounds.next(now, {})) {
      const model::Segment& segment = decision.step->batch.segments.at(0);
      CHECK(segment.sequence == steps % 2);
      CHECK(segment.past == 0);
      CHECK(segment.sampled == 1);
      if (segment.sequence == 0) rows.push_back(segment.rows);
      begun.push_back({.step = steps++});
    }
    ended = begun;
  }
  CHECK(steps == 300);
  REQUIRE(rows.size() == 150);
  for (std::size_t i = 0; i < rows.size(); ++i)
    CHECK(rows[i] == std::min<std::int32_t>(128, 8 + static_cast<std::int32_t>(i)));
  CHECK(rounds.counted() == 300);
  REQUIRE(rounds.times_s().size() == 300);
  for (std::size_t i = 0; i < 300; ++i)
    CHECK(rounds.times_s()[i] == static_cast<double>(i / 2 + 1));  // two samples each
}

TEST_CASE("study/mdi: stages send whole contexts, and the finisher its logits") {
  const MdiRun run = nanogpt(3);
  const model::Transformer transformer = model::test::named_model(run.model);
  const planner::Plan plan = mdi_plan(boards(), kBoard, transformer, run);
  const auto graphs = mdi_graphs(plan, run);
  const model::TaskGraph& graph = graphs->graph_of({{{.rows = 128}}, {}});
  std::vector<double> bytes;
  for (const model::Task& task : graph.tasks()) {
    if (task.lane == model::LaneKind::channel)
      bytes.push_back(model::work_of(plan.model, graph.batch(), task).bytes_wire);
    if (task.kind == model::TaskKind::lm_head) {
      CHECK(task.device == 2);
      CHECK(task.rows.size() == 128);
    }
    if (task.kind == model::TaskKind::sample) CHECK(task.device == 0);
  }
  CHECK(bytes == std::vector<double>{196'608, 196'608, 128 * 65 * 4});  // equation 4.1; 3.3.1
}

TEST_CASE("study/mdi: SimGrid and the analytic evaluator make the same of rounds") {
  for (const bool caches : {false, true}) {
    CAPTURE(caches);
    MdiRun run = nanogpt(4);
    run.caches = caches;
    run.head_on_last = run.sends_in_loop = !caches;
    run.tokens = 12;
    const model::Transformer transformer = model::test::named_model(run.model);
    const planner::Plan plan = mdi_plan(boards(), kBoard, transformer, run);
    const double rate = mdi_rate(boards(), kBoard, transformer, run);
    MdiRounds rounds(run, mdi_prompt(run), transformer.max_context);
    const auto graphs = mdi_graphs(plan, run);
    model::RunRecorder recorder(plan.cluster, plan.master, false);
    sim::replay_scheduled(plan.cluster, plan.cost_model(), rounds, *graphs, recorder);
    double end = 0.0;
    for (const model::ServedStep& step : recorder.served())
      end = std::max(end, step.sampled_s.at(0));
    CHECK(std::abs(48.0 / end / rate - 1.0) < 1e-9);
  }
}

}  // namespace tandem::study::mdi_test
