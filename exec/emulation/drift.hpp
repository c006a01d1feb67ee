#pragma once

// Whether this machine's speed stood still during a run that multiplies measured CPU times.

#include <cstddef>
#include <vector>

#include "exec/emulation/pacer.hpp"
#include "exec/emulation/turn.hpp"

namespace tandem::exec {

// Times a fixed piece of work (sums of squares over 256 KiB, again and again) by its thread's CPU
// time.
class ReferenceKernel {
 public:
  explicit ReferenceKernel(LaneClock& clock = system_lane_clock());
  // Seconds of CPU of one repetition, about a tenth of a millisecond, after one that fills the
  // caches: the least of three, as a hiccup is not the machine's speed.
  [[nodiscard]] double time_s();

 private:
  void repeat();

  LaneClock* clock_;
  std::vector<float> data_;
};

// Medians before, during and after a run, each measurement behind a short sleep: what the processor
// has just done changes its speed (vector instructions lower its clock for a millisecond), and that
// is the run's doing, not the machine's.
class DriftWatch {
 public:
  // Measures `before`. `turn`: taken for each measurement, if given. Both outlive the watch.
  explicit DriftWatch(Turn* turn = nullptr, LaneClock& clock = system_lane_clock());
  // Between steps, on the computing thread. Keeps at most 4096 samples.
  void sample();
  // Measures `after`; returns the largest of the three medians over the smallest, minus 1.
  [[nodiscard]] double finish();

 private:
  static constexpr int kRepetitions = 15;
  [[nodiscard]] double median_of_repetitions();
  [[nodiscard]] double time_s();

  Turn* turn_;
  LaneClock* clock_;
  ReferenceKernel kernel_;
  double before_s_ = 0.0;
  std::vector<double> during_;
};

}  // namespace tandem::exec
