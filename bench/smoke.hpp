#pragma once

#include <cstdlib>

namespace tandem::bench {

// Whether it is to be seen that they run, and no more: $TANDEM_BENCH_SMOKE, of bench/run.sh
// --smoke.
inline bool smoke() { return std::getenv("TANDEM_BENCH_SMOKE") != nullptr; }

// How often a case is measured, of as many times as its figures need.
inline int repetitions(int wanted) { return smoke() ? 1 : wanted; }

}  // namespace tandem::bench
