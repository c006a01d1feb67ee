#pragma once

// Whether this machine's speed stood still during a run that multiplies measured CPU times.

#include <cstddef>
#include <vector>

namespace tandem::exec {

// Times a fixed piece of work (sums of squares over 256 KiB, again and again) by its thread's CPU
// time.
class ReferenceKernel {
 public:
  ReferenceKernel();
  // Seconds of CPU of one repetition, about a tenth of a millisecond, after one that fills the
  // caches.
  [[nodiscard]] double time_s();

 private:
  void repeat();

  std::vector<float> data_;
};

// Medians before, during and after a run. A paced lane mostly sleeps, so that its work begins on a
// core that has been idle; the repetitions before and after sleep as well.
class DriftWatch {
 public:
  // Measures `before`.
  DriftWatch();
  // Between steps, on the computing thread. Keeps at most 4096 samples.
  void sample();
  // Measures `after`; returns the largest of the three medians over the smallest, minus 1.
  [[nodiscard]] double finish();

 private:
  static constexpr int kRepetitions = 15;
  [[nodiscard]] double median_of_repetitions();

  ReferenceKernel kernel_;
  double before_s_ = 0.0;
  std::vector<double> during_;
};

}  // namespace tandem::exec
