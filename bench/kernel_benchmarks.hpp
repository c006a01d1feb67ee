#pragma once

#include <benchmark/benchmark.h>

#include "exec/kernels/instruction_sets.hpp"

namespace tandem::bench {

// Runs those that are registered, with the instruction sets that the environment asks for. Returns
// what main returns.
inline int run_benchmarks(int argc, char** argv) {
  exec::choose_instruction_sets();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace tandem::bench
