// What a scheduler costs a step: one decision (median and p99, in microseconds) with as many
// requests as there may be at once, and the lowering of a structure that is new. Aim: lowering
// Llama 2-70B over 8 devices in less than 1 ms.

#include <benchmark/benchmark.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/statistics.hpp"
#include "model/report/trace.hpp"
#include "models.hpp"
#include "planner/serving/request_scheduler.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "replayed_plan.hpp"

namespace {

using namespace tandem;

void decision(benchmark::State& state) {
  std::vector<planner::InferenceRequest> requests;
  for (std::int64_t r = 0; r < state.range(0); ++r) {
    requests.push_back({.id = std::to_string(r),
                        .arrival_s = static_cast<double>(r) * 1e-3,
                        .prompt_tokens = 64 + r % 50,
                        .new_tokens = 100 + r % 30});
  }
  const planner::Policy& policy = planner::find_policy("continuous");
  std::vector<double> seconds;
  for ([[maybe_unused]] auto _ : state) {
    planner::RequestScheduler scheduler(
        requests, policy,
        {.chunk = 32, .capacity = planner::wanted_capacity(requests, policy, 32), .ends = {}});
    double now = 0.0;
    std::vector<model::StepOutcome> ended;
    for (std::int32_t made = 0;; now += 1e-3) {
      const auto begin = std::chrono::steady_clock::now();
      const model::Decision next = scheduler.next(now, ended);
      seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      ended.clear();
      if (next.step) {
        ended.push_back({.step = made++, .tokens = {}});
      } else if (std::isfinite(next.until_s)) {
        now = next.until_s - 1e-3;
      } else {
        break;
      }
    }
  }
  state.counters["median_us"] = model::quantile(seconds, 0.5) * 1e6;
  state.counters["p99_us"] = model::quantile(seconds, 0.99) * 1e6;
}

void lowering(benchmark::State& state) {
  const planner::Plan plan = bench::llama2_70b_on_klonet8(2);
  const planner::Strategy& strategy = planner::find_strategy(plan.strategy);
  const auto rows = static_cast<std::int32_t>(state.range(0));
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(strategy.lower(plan, planner::scored_batch(rows, 1)));
  }
}

BENCHMARK(decision)->ArgName("requests")->Arg(1)->Arg(8)->Arg(64)->Unit(benchmark::kMillisecond);
BENCHMARK(lowering)->ArgName("rows")->Arg(1)->Arg(64)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
