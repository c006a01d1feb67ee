#pragma once

// Which steps a profile measures, and when.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/kernels/kernel_set.hpp"
#include "exec/profiling/profile_errors.hpp"
#include "exec/profiling/profile_rig.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

struct StepOptions {
  std::vector<int> threads{1};  // each measured apart
  KernelSet kernels = default_kernel_set();
  double stream_bytes = 0.0;  // of weights between two uses of the same, at least
  // Prompts that are measured first, ascending, and those that refine them. Of the former the first
  // two are measured in any case, the others where their time lasts.
  std::vector<std::int32_t> rows{};
  std::vector<std::int32_t> finer{};
  std::function<void()> check{};  // as in ProfileOptions
};

struct MeasuredSteps {
  ProfileLog log{};
  std::string left_out{};  // "for lack of time no prompts of 512 tokens or more"; empty: nothing
  // Seconds of a small step that never changes, at moments before, between and after all others.
  std::vector<double> reference_s{};
  // Of each size that refined, by the fit to all others; if none did, of the largest of `rows`,
  // which the fit to the smaller ones extrapolates to.
  HeldOut held_out{};
};

// Times of all tasks of `transformer`, with weights in its formats: of single tokens after contexts
// of several lengths, of prompts of `rows` and, from the widest gap between two measured sizes on,
// of `finer` until what is measured next is within 5% of what the fit to the others predicts. They
// are measured in visits, between which the caller does other things: each visit makes the weights
// anew and repeats every size that was measured before, so that neither one slow moment nor one
// place in memory determines a time.
class StepMeasurement {
 public:
  // Throws Error if this machine has too little memory for the first two of `rows`.
  StepMeasurement(const model::Transformer& transformer, StepOptions options);
  ~StepMeasurement();
  StepMeasurement(StepMeasurement&&) noexcept;
  StepMeasurement& operator=(StepMeasurement&&) noexcept;

  // Measures for about `seconds`, the making of weights included; the first visit takes what single
  // tokens and the first two of `rows` need at the least. `more` visits of that length follow.
  void visit(double seconds, int more);
  // How long making the weights took in the last visit.
  [[nodiscard]] double making_s() const;
  // With the `index`th number of threads, of all visits until now.
  [[nodiscard]] MeasuredSteps measured(std::size_t index) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::exec
