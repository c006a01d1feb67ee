// A whole generation predicted: Llama 2-70B, tensor parallel over eight devices of klonet8, star
// all-reduces, a prompt and 100 new tokens. Bounds: 5 s on SimGrid, 0.1 s analytically.

#include <benchmark/benchmark.h>

#include <cstdint>

#include "generation.hpp"
#include "model/predict/analytic.hpp"
#include "replayed_plan.hpp"
#include "sim/platform/platform.hpp"
#include "sim/replay/replay.hpp"
#include "tests/support/source_tree.hpp"

namespace {

using namespace tandem;

void simgrid(benchmark::State& state) {
  bench::generation(state, bench::llama2_70b_on_klonet8(state.range(0)), sim::replay);
}
void analytic(benchmark::State& state) {
  bench::generation(state, bench::llama2_70b_on_klonet8(state.range(0)), model::evaluate_analytic);
}
void platform(benchmark::State& state) {
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(
        sim::read_platform(testing::in_sources("scenarios/platforms/klonet8.xml").string()));
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
