// A whole generation predicted: Llama 2-70B, tensor parallel over eight devices of klonet8, star
// all-reduces, a prompt and 100 new tokens. Bounds: 5 s on SimGrid, 0.1 s analytically.

#include <benchmark/benchmark.h>

#include <cstdint>

#include "generation.hpp"
#include "model/analytic.hpp"
#include "models.hpp"
#include "sim/platform.hpp"
#include "sim/replay.hpp"

namespace {

using namespace tandem;

// Equal shares, whether or not they fit: what is measured is the evaluators.
planner::Plan plan_for(std::int64_t new_tokens) {
  const model::Cluster cluster =
      sim::read_platform(TANDEM_SOURCE_DIR "/scenarios/platforms/klonet8.xml").cluster;
  planner::Plan plan{.strategy = "tensor",
                     .partition = "equal",
                     .allreduce = {"star", "star"},
                     .layout = planner::wiring(cluster, 0),
                     .model = bench::llama2_70b(),
                     .cluster = cluster,
                     .workload = {.prompt_tokens = 32, .new_tokens = new_tokens},
                     .devices = {},
                     .profiles = {}};
  const std::int32_t devices = cluster.size();
  const auto layers = static_cast<std::int32_t>(plan.model.layers);
  const auto heads = static_cast<std::int32_t>(plan.model.heads) / devices;
  const auto columns = static_cast<std::int32_t>(plan.model.intermediate) / devices;
  for (std::int32_t d = 0; d < devices; ++d) {
    plan.devices.push_back({.share = {.layers = {0, layers},
                                      .heads = {d * heads, (d + 1) * heads},
                                      .columns = {d * columns, (d + 1) * columns},
                                      .embedding = d == 0,
                                      .head = d == 0},
                            .memory = {}});
    plan.profiles.push_back(model::nominal_profile(cluster.devices()[static_cast<std::size_t>(d)]));
  }
  plan.validate();
  return plan;
}

void simgrid(benchmark::State& state) {
  bench::generation(state, plan_for(state.range(0)), sim::replay);
}
void analytic(benchmark::State& state) {
  bench::generation(state, plan_for(state.range(0)), model::evaluate_analytic);
}
void platform(benchmark::State& state) {
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(
        sim::read_platform(TANDEM_SOURCE_DIR "/scenarios/platforms/klonet8.xml"));
  }
}

// Most of a replay is in the child process: wall time counts.
BENCHMARK(simgrid)
    ->ArgName("new_tokens")
    ->Arg(1)
    ->Arg(100)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(analytic)
    ->ArgName("new_tokens")
    ->Arg(1)
    ->Arg(100)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(platform)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
