// Samples that go round a pipeline, each in steps of its own.

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <variant>
#include <vector>

#include "model/graph/work.hpp"
#include "model/predict/analytic.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/serving/serving_plan.hpp"
#include "planner/strategy/common/graph_cache.hpp"
#include "tests/model/model_fixtures.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::stage_ring_test {
namespace {

using planner::Capacity;
using planner::InferenceRequest;

const planner::Policy& recurrent() { return planner::find_policy("recurrent"); }

std::vector<InferenceRequest> samples(std::int64_t count, std::int64_t prompt = 3,
                                      std::int64_t tokens = 12) {
  return planner::samples_of({.id = {}, .prompt_tokens = prompt, .new_tokens = tokens}, count);
}

model::RunRecorder served(const planner::Plan& plan, const std::vector<InferenceRequest>& requests,
                          const Capacity& capacity, std::int64_t chunk = 0) {
  planner::RequestScheduler scheduler(requests, recurrent(),
                                      {.chunk = chunk, .capacity = capacity});
  model::RunRecorder recorder(plan.cluster, plan.master, false);
  planner::GraphCache graphs(plan);
  model::evaluate_scheduled(plan.cluster, plan.cost_model(), scheduler, graphs, recorder);
  return recorder;
}

// How many steps were in flight when each was submitted, itself included, at most.
std::int32_t most_in_flight(const model::RunRecorder& recorder) {
  std::int32_t most = 0;
  std::int32_t number = 0;
  for (const model::ServedStep& step : recorder.served())
    most = std::max(most, ++number - step.step.ended);
  return most;
}

}  // namespace

TEST_CASE("planner/recurrent: samples have their steps for themselves, below, at and above N") {
  const planner::Plan plan = pipeline_of(4);
  for (std::int64_t count = 1; count <= 9; ++count) {
    for (const std::int64_t steps : {1, 3, 4, 6, 16}) {
      CAPTURE(count);
      CAPTURE(steps);
      const auto requests = samples(count);
      const Capacity capacity = planner::wanted_capacity(requests, recurrent(), 0, steps);
      CHECK(capacity == Capacity{.rows = 3,
                                 .positions = 64 * std::min(count, steps),
                                 .sequences = std::min(count, steps),
                                 .steps = std::min(count, steps)});
      const model::RunRecorder recorder = served(plan, requests, capacity);
      REQUIRE(recorder.served().size() == static_cast<std::size_t>(12 * count));
      CHECK(most_in_flight(recorder) == std::min(count, steps));
      std::vector<double> begin(requests.size(), -1.0);
      std::vector<double> end(requests.size(), 0.0);
      for (const model::ServedStep& step : recorder.served()) {
        REQUIRE(step.step.batch.segments.size() == 1);
        const auto s = static_cast<std::size_t>(step.step.batch.segments.front().sequence);
        if (begin[s] < 0.0) begin[s] = step.step.not_before_s;
        end[s] = step.end_s;
      }
      // All that fit begin at once; the end of one lets the next in, no earlier and no later.
      std::multiset<double> ends(end.begin(), end.end());
      auto next = ends.begin();
      for (std::int64_t s = 0; s < count; ++s) {
        const double expected = s < steps ? 0.0 : *next++;
        CHECK(begin[static_cast<std::size_t>(s)] == doctest::Approx(expected).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("planner/recurrent: a plan of any policy serves samples, those with room for them") {
  // Room for eight sequences and two steps: two go round.
  const planner::Plan plan = pipeline_of(2);
  const auto requests = samples(8);
  const Capacity wide =
      planner::wanted_capacity(requests, planner::find_policy("continuous"), 0, 2);
  const model::RunRecorder recorder = served(plan, requests, wide);
  CHECK(most_in_flight(recorder) == 2);
  for (const model::ServedStep& step : recorder.served())
    CHECK(step.step.batch.segments.size() == 1);
}

TEST_CASE("planner/recurrent: chunks of a lone sample's prompt follow each other") {
  const planner::Plan plan = pipeline_of(3);
  const auto requests = samples(1, 24, 4);
  const Capacity capacity = planner::wanted_capacity(requests, recurrent(), 4, 8);
  CHECK(capacity == Capacity{.rows = 4, .positions = 64, .sequences = 1, .steps = 6});
  const model::RunRecorder recorder = served(plan, requests, capacity, 4);
  CHECK(most_in_flight(recorder) == 6);
  CHECK(recorder.served().size() == 6 + 3);
}

TEST_CASE("planner/recurrent: a plan reserves memory for all samples, or for those that fit") {
  planner::Request request{.model = small_model({.layers = 6}),
                           .cluster = star_cluster({{}, {}, {}}),
                           .strategy = "pipeline",
                           .workload = {}};
  const auto plan_for = [&](std::int64_t count) {
    const auto answer = planner::make_serving_plan(request, samples(count), recurrent(), 0);
    REQUIRE(std::holds_alternative<planner::Plan>(answer));
    return std::get<planner::Plan>(answer);
  };
  CHECK(plan_for(2).capacity.steps == 2);
  CHECK(plan_for(7).capacity.steps == 7);
  CHECK(plan_for(40).capacity ==
        Capacity{.rows = 3, .positions = 1024, .sequences = 16, .steps = 16});
  // Memory for a few caches: half as many go round, and so on, each still in its own steps.
  const double most = plan_for(16).devices.front().memory.total();
  const double least = plan_for(1).devices.front().memory.total();
  const double some = (most + 2 * least) / 3;
  request.cluster = star_cluster({{.memory_bytes = some}, {}, {}});
  const planner::Plan tight = plan_for(16);
  CHECK(tight.capacity.steps < 16);
  CHECK(tight.capacity.steps > 1);
  CHECK(tight.capacity.sequences == tight.capacity.steps);
  CHECK(tight.devices.front().memory.total() <= some);
  // Steps that are asked for are reserved for, or there is no plan.
  const auto with = [&](std::int64_t count, std::int64_t chunk, std::int64_t steps) {
    return planner::make_serving_plan(request, samples(count), recurrent(), chunk, steps);
  };
  const auto few = with(16, 0, tight.capacity.steps);
  REQUIRE(std::holds_alternative<planner::Plan>(few));
  CHECK(std::get<planner::Plan>(few).capacity.steps == tight.capacity.steps);
  const auto all = with(16, 0, 16);
  REQUIRE(std::holds_alternative<planner::Infeasible>(all));
  CHECK(std::get<planner::Infeasible>(all).reason.find("'--in-flight 15'") != std::string::npos);
  request.cluster = star_cluster({{}, {}, {}});
  CHECK_THROWS_WITH_AS((void)with(1, 0, 2),
                       doctest::Contains("2 steps, but 1 request has at most 1"), tandem::Error);
  CHECK_THROWS_WITH_AS((void)with(3, 0, 5), doctest::Contains("'--in-flight 3'"), tandem::Error);
  CHECK(std::get<planner::Plan>(with(1, 1, 3)).capacity.steps == 3);  // three chunks of a prompt
  CHECK(std::get<planner::Plan>(with(1, 1, 3)).capacity.sequences == 1);
  // All devices of other strategies work on one step: one sample after another.
  request.strategy = "tensor";
  CHECK(plan_for(4).capacity.steps == 1);
  CHECK(plan_for(4).capacity.sequences == 1);
}

TEST_CASE("planner/recurrent: samples differ in name and, where chance decides, in seed") {
  InferenceRequest sample{
      .id = {}, .prompt_tokens = 2, .new_tokens = 3, .prompt_ids = {4, 5}, .sampling = {.seed = 7}};
  std::vector<InferenceRequest> three = planner::samples_of(sample, 3);
  CHECK(three[0].id == "s1");
  CHECK(three[2].id == "s3");
  CHECK(three[2].prompt_ids == sample.prompt_ids);
  CHECK(three[2].sampling.seed == 7);
  sample.sampling.temperature = 0.5;
  three = planner::samples_of(sample, 3);
  CHECK(three[0].sampling.seed == 7);
  CHECK(three[2].sampling.seed == 9);
}

// MDI-LLM (Macario 2024), equations 4.1 to 4.7: without caches every step sends the whole context
// from stage to stage, with them a row.
TEST_CASE("planner/recurrent: messages have the bytes of MDI-LLM's equations 4.1 to 4.7") {
  struct Equation {
    const char* model;
    std::int64_t rows;
    double bytes;
  };
  for (const auto& [name, rows, bytes] : std::vector<Equation>{{"nanogpt-7", 128, 196'608},
                                                               {"nanogpt-9", 128, 196'608},
                                                               {"nanogpt-12", 128, 196'608},
                                                               {"gpt2", 1024, 3'145'728},
                                                               {"gpt2-medium", 1024, 4'194'304},
                                                               {"gpt2-large", 1024, 5'242'880},
                                                               {"gpt2-xl", 1024, 6'553'600},
                                                               {"nanollama-304m", 1, 4096},
                                                               {"tinyllama-1.1b", 1, 8192}}) {
    CAPTURE(name);
    planner::Request request{.model = model::test::named_model(name),
                             .cluster = star_cluster({{}, {}, {}}),
                             .strategy = "pipeline",
                             .partition = "equal",
                             .workload = {}};
    request.workload = {.prompt_tokens = std::max<std::int64_t>(1, rows - 1), .new_tokens = 1};
    const auto answer = planner::make_plan(request);
    REQUIRE(std::holds_alternative<planner::Plan>(answer));
    const auto& plan = std::get<planner::Plan>(answer);
    const model::TaskGraph graph =
        planner::find_strategy("pipeline")
            .lower(plan, {.segments = {{.sequence = 0,
                                        .past = 0,
                                        .rows = static_cast<std::int32_t>(rows),
                                        .sampled = 1}},
                          .cache = {}});
    int messages = 0;
    for (const model::Task& task : graph.tasks()) {
      if (task.kind != model::TaskKind::transfer) continue;
      ++messages;
      CHECK(model::work_of(plan.model, graph.batch(), task).bytes_wire == bytes);
    }
    CHECK(messages == 3);
  }
}

}  // namespace tandem::test::stage_ring_test
