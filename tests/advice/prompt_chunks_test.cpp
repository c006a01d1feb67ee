#include "advice/prompt_chunks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "advice/choice.hpp"
#include "model/base/error.hpp"
#include "planner/search/search.hpp"
#include "tests/planner/planner_fixture.hpp"

namespace tandem::test::prompt_chunks_test {
namespace {

using planner::Infeasible;
using planner::Objective;
using study::PromptPlan;

constexpr ModelSizes kSizes{
    .layers = 8, .heads = 4, .kv_heads = 4, .head_dim = 8, .intermediate = 64};

planner::Request request_of(const std::vector<DeviceSpec>& devices, const std::string& strategy,
                            planner::Workload workload) {
  model::Transformer transformer = small_model(kSizes);
  transformer.max_context = 4096;
  return {.model = transformer,
          .cluster = star_cluster(devices),
          .strategy = strategy,
          .workload = workload};
}

std::vector<DeviceSpec> equal_devices(std::size_t count, double flops_per_s) {
  return {count, DeviceSpec{.flops_per_s = flops_per_s}};
}

PromptPlan plan_for(const planner::Request& request, const study::PromptReading& reading) {
  auto made = study::plan_prompt(request, reading);
  REQUIRE_MESSAGE(std::holds_alternative<PromptPlan>(made), std::get<Infeasible>(made).reason);
  return std::get<PromptPlan>(std::move(made));
}

model::Result simulated(const PromptPlan& plan) {
  if (plan.chunk == 0) return study::predict(plan.plan, {}).result;
  return study::predict_served(plan.plan, study::one_in_chunks(plan.plan.workload, plan.chunk), {})
      .result;
}

double sum(const std::vector<model::Waiting>& all) {
  double seconds = 0.0;
  for (const model::Waiting& waiting : all) seconds += waiting.seconds;
  return seconds;
}

}  // namespace

// Computing takes all the time: with S equal stages and k chunks, each of time t in a stage, the
// first token comes after (k + S - 1) t, where a prompt read whole takes k S t.
TEST_CASE("study/prompt chunks: a pipeline of equal stages works on as many chunks at once") {
  planner::Request request = request_of(equal_devices(4, 1e5), "pipeline", {48, 1});
  request.partition = "equal";
  const double whole = plan_for(request, {}).seconds;
  for (const std::int64_t chunk : {24, 12, 6}) {
    CAPTURE(chunk);
    const double chunks = 48.0 / static_cast<double>(chunk);
    CHECK(plan_for(request, {.rows = chunk}).seconds / whole ==
          doctest::Approx((chunks + 3.0) / (4.0 * chunks)).epsilon(0.05));
  }
}

TEST_CASE("study/prompt chunks: seconds are what SimGrid says of first token and request") {
  for (const Objective objective : {Objective::request, Objective::ttft}) {
    for (const std::string strategy : {"pipeline", "tensor", "galaxy", "local"}) {
      CAPTURE(strategy);
      planner::Request request =
          request_of(equal_devices(strategy == "local" ? 1 : 3, 1e6), strategy, {20, 6});
      request.objective = objective;
      const PromptPlan plan = plan_for(request, {.rows = 7});
      CHECK(plan.chunk == 7);
      const model::RequestResult result = simulated(plan).requests.at(0);
      CHECK(plan.seconds ==
            doctest::Approx(objective == Objective::ttft ? result.ttft_s : result.end_s)
                .epsilon(1e-9));
    }
  }
}

TEST_CASE(
    "study/prompt chunks: the best reading is no slower than a whole prompt or given chunks") {
  std::mt19937 random(5);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  int in_chunks = 0;
  for (int again = 0; again < 12; ++again) {
    std::vector<DeviceSpec> devices(static_cast<std::size_t>(draw(2, 4)));
    for (DeviceSpec& device : devices)
      device.flops_per_s = draw(1, 20) * (again % 2 == 0 ? 1e5 : 1e10);
    planner::Request request = request_of(devices, "pipeline", {draw(8, 64), draw(1, 6)});
    request.objective = again % 3 == 0 ? Objective::ttft : Objective::request;
    const PromptPlan best = plan_for(request, {.best = true});
    in_chunks += best.chunk > 0 ? 1 : 0;
    CAPTURE(again);
    CAPTURE(best.chunk);
    CHECK(best.seconds <= plan_for(request, {}).seconds);
    for (const std::int64_t rows : {1, 2, 4, 8, 16, 32}) {
      if (rows >= request.workload.prompt_tokens) continue;
      CAPTURE(rows);
      // The length is found without shared links, for the mean of the stages' shares.
      CHECK(best.seconds <= plan_for(request, {.rows = rows}).seconds * 1.05);
    }
  }
  CHECK(in_chunks > 3);
}

TEST_CASE("study/prompt chunks: a chunk that is no shorter than the prompt is the whole prompt") {
  const planner::Request request = request_of(equal_devices(2, 1e5), "pipeline", {16, 3});
  const PromptPlan whole = plan_for(request, {});
  for (const std::int64_t rows : {16, 100}) {
    const PromptPlan plan = plan_for(request, {.rows = rows});
    CHECK(plan.chunk == 0);
    CHECK(plan.plan == whole.plan);
  }
}

TEST_CASE("study/prompt chunks: memory is reserved for the rows of a chunk") {
  for (const std::string strategy : {"pipeline", "tensor", "galaxy"}) {
    CAPTURE(strategy);
    planner::Request request = request_of(equal_devices(2, 1e5), strategy, {512, 2});
    request.partition = "equal";
    const planner::Plan whole = plan_for(request, {}).plan;
    const planner::Plan parts = plan_for(request, {.rows = 32}).plan;
    for (std::size_t d = 0; d < 2; ++d) {
      CHECK(parts.devices[d].memory.activations < whole.devices[d].memory.activations / 8.0);
      CHECK(parts.devices[d].memory.kv_cache == whole.devices[d].memory.kv_cache);
    }
  }
}

// A little less memory than a whole prompt needs.
TEST_CASE("study/prompt chunks: prompts that do not fit whole are read in chunks that do") {
  for (const std::string strategy : {"local", "pipeline", "tensor", "galaxy"}) {
    CAPTURE(strategy);
    planner::Request request =
        request_of(equal_devices(strategy == "local" ? 1 : 2, 1e6), strategy, {600, 2});
    request.partition = strategy == "local" ? "auto" : "equal";
    request.window.blocks = 0;
    const planner::Plan whole = plan_for(request, {}).plan;
    double most = 0.0;
    for (const planner::DevicePlan& device : whole.devices)
      most = std::max(most, device.memory.total());
    request.memory_limit = model::Bytes{most * 0.97};
    CHECK(std::holds_alternative<Infeasible>(study::plan_prompt(request, {})));
    const PromptPlan found = plan_for(request, {.best = true});
    CHECK(found.chunk > 0);
    CHECK(found.chunk <= 512);
    const study::ServedWorkload served = study::one_in_chunks(found.plan.workload, found.chunk);
    CHECK_NOTHROW(study::check_memory(found.plan, &served, false));
  }
}

// A little more memory than steps of `rows` tokens need.
TEST_CASE("study/prompt chunks: prompts that fit only in steps of a few tokens are read in them") {
  for (const std::string strategy : {"local", "pipeline", "tensor"}) {
    for (const std::int64_t rows : {1, 8, 32}) {
      CAPTURE(strategy);
      CAPTURE(rows);
      planner::Request request =
          request_of(equal_devices(strategy == "local" ? 1 : 2, 1e6), strategy, {300, 2});
      request.partition = strategy == "local" ? "auto" : "equal";
      request.window.blocks = 0;
      double most = 0.0;
      for (const planner::DevicePlan& device :
           plan_for(request, {.rows = rows, .steps = 1}).plan.devices)
        most = std::max(most, device.memory.total());
      request.memory_limit = model::Bytes{most};
      CHECK(std::holds_alternative<Infeasible>(study::plan_prompt(request, {.rows = 64})));
      const PromptPlan found = plan_for(request, {.best = true});
      CHECK(found.chunk > 0);  // on a pipeline shorter chunks may take less time
      if (strategy != "pipeline") CHECK(found.chunk >= rows);
      CHECK(found.chunk < 64);
      const auto fit = study::fit_prompt(request, {.best = true});
      REQUIRE(std::holds_alternative<study::FittingPlan>(fit));
      CHECK(std::get<study::FittingPlan>(fit).chunk >= rows);
    }
  }
}

TEST_CASE("study/prompt chunks: as many steps are in flight as are asked for") {
  planner::Request request = request_of(equal_devices(3, 1e6), "pipeline", {48, 3});
  for (const std::int64_t steps : {1, 2, 7}) {
    CAPTURE(steps);
    CHECK(plan_for(request, {.rows = 4, .steps = steps}).plan.reserved().steps == steps);
    if (steps > 1) {
      const PromptPlan best = plan_for(request, {.best = true, .steps = steps});
      CHECK(best.chunk > 0);
      CHECK(best.plan.reserved().steps == steps);
    }
  }
  CHECK_THROWS_WITH_AS(static_cast<void>(study::plan_prompt(request, {.rows = 24, .steps = 3})),
                       doctest::Contains("1 request has at most 2 to do at once"), Error);
}

TEST_CASE("study/prompt chunks: what the first token waits for sums to its time over all chunks") {
  for (const std::string strategy : {"pipeline", "tensor", "local"}) {
    for (const std::int64_t rows : {3, 8}) {
      CAPTURE(strategy);
      CAPTURE(rows);
      const PromptPlan plan =
          plan_for(request_of(equal_devices(strategy == "local" ? 1 : 3, 1e6), strategy, {20, 3}),
                   {.rows = rows});
      const study::ServedWorkload served = study::one_in_chunks(plan.plan.workload, rows);
      for (const auto evaluator : {study::EvaluatorKind::analytic, study::EvaluatorKind::simgrid}) {
        CAPTURE(study::to_string(evaluator));
        const model::Metrics metrics =
            study::predict_served(plan.plan, served, {.evaluator = evaluator}).result.metrics;
        const model::Bottleneck found = study::bottleneck_of(plan.plan, evaluator, &served);
        CHECK(sum(found.prompt) == doctest::Approx(metrics.ttft_s).epsilon(1e-9));
        CHECK(sum(found.token) == doctest::Approx(metrics.token_latencies_s()[0]).epsilon(1e-9));
      }
    }
  }
}

// One step after the other: the last 256 of 300 take more than that part, as they attend to more.
TEST_CASE("study/prompt chunks: of many chunks the last stand for all") {
  const PromptPlan plan =
      plan_for(request_of(equal_devices(1, 1e6), "local", {600, 3}), {.rows = 2});
  const study::ServedWorkload served = study::one_in_chunks(plan.plan.workload, 2);
  const model::Metrics metrics = study::predict_served(plan.plan, served, {}).result.metrics;
  const model::Bottleneck found =
      study::bottleneck_of(plan.plan, study::EvaluatorKind::analytic, &served);
  CHECK(sum(found.prompt) > 256.0 / 300.0 * metrics.ttft_s);
  CHECK(sum(found.prompt) < metrics.ttft_s);
  CHECK(sum(found.token) == doctest::Approx(metrics.token_latencies_s()[0]).epsilon(1e-9));
}

TEST_CASE("study/prompt chunks: the search for the best strategy reads prompts in chunks") {
  planner::Request request = request_of(equal_devices(4, 1e5), "auto", {48, 2});
  const study::Choice whole = study::choose({.request = request});
  const study::Choice best = study::choose({.request = request, .prompt = {.best = true}});
  CHECK(best.contenders.at(0).seconds <= whole.contenders.at(0).seconds);
  const auto pipeline = std::ranges::find(
      best.contenders, "pipeline", [](const auto& contender) { return contender.plan.strategy; });
  REQUIRE(pipeline != best.contenders.end());
  CHECK(pipeline->chunk > 0);
  CHECK(pipeline->seconds ==
        doctest::Approx(study::time_of(pipeline->plan, Objective::request, pipeline->chunk))
            .epsilon(1e-9));
}

}  // namespace tandem::test::prompt_chunks_test
