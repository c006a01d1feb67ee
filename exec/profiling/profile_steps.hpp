#pragma once

// Which steps a profile measures, and for how long.

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "exec/kernels/kernel_set.hpp"
#include "exec/profiling/profile_errors.hpp"
#include "exec/profiling/profile_rig.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

struct StepOptions {
  int threads = 1;
  KernelSet kernels = default_kernel_set();
  // When to stop, the making of weights included; exceeded by what `rows` need at the least.
  std::chrono::steady_clock::time_point deadline{};
  double stream_bytes = 0.0;  // of weights between two uses of the same, at least
  // Prompts that are measured first, ascending, and those that refine them. Of the former the first
  // two are measured in any case, the others where their time lasts.
  std::vector<std::int32_t> rows{};
  std::vector<std::int32_t> finer{};
  std::function<void()> check{};  // as in ProfileOptions
};

struct MeasuredSteps {
  ProfileLog log{};
  std::int32_t left_out = 0;  // the first of `rows` that there was no time for; 0: none
  // Seconds of a small step that never changes, at moments before, between and after all others.
  std::vector<double> reference_s{};
  // Of the sizes that refined; where there was no time for them, of the largest of `rows`, which
  // the fit to the smaller ones extrapolates to.
  HeldOut held_out{};
};

// Times of all tasks of `transformer`, with weights in its formats: of single tokens after contexts
// of several lengths, of prompts of `rows` and, from the widest gap between two measured sizes on,
// of `finer` until what is measured next is within 5% of what the fit to the others predicts; then
// of all of them again while time lasts.
[[nodiscard]] MeasuredSteps measure_steps(const model::Transformer& transformer,
                                          const StepOptions& options);

}  // namespace tandem::exec
