#pragma once

#include <span>

#include "model/predict/device_profile.hpp"

namespace tandem::exec {

// One measured size of one task kind.
struct ProfileSample {
  double streamed_bytes = 0.0;
  double intensity = 1.0;
  double seconds = 0.0;
};

// The rate with the least squared relative error of
//   seconds = overhead_s + streamed_bytes * seconds_per_byte(intensity)
// one point for each intensity that occurs. The overhead is found from the samples of the smallest
// intensity, where it matters most (0 if these are all of one size), and is never negative. Throws
// logic_error if there is no sample with positive bytes and seconds; others are ignored.
[[nodiscard]] model::KindRate fit_rate(std::span<const ProfileSample> samples);

}  // namespace tandem::exec
