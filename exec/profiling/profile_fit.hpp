#pragma once

#include <span>

#include "model/predict/device_profile.hpp"

namespace tandem::exec {

// One measured size of one task kind.
struct ProfileSample {
  double streamed_bytes = 0.0;
  double intensity = 1.0;
  double seconds = 0.0;
  // Of a product that rounds its inputs to 8 bits (model::multiplies_integers), whose time has a
  // part by row whatever its columns.
  bool by_row = false;
};

// The rate with the least squared relative error of
//   seconds = overhead_s + row_s * intensity + streamed_bytes * seconds_per_byte(intensity)
// one point for each intensity that occurs. Of samples that are all `by_row`: overhead and row_s
// from all intensities that occur with two sizes. Else, or if row_s would be negative, row_s is 0
// and the overhead is found from the samples of the smallest intensity, where it matters most (0 if
// these are all of one size). Neither is ever negative. Throws logic_error if there is no sample
// with positive bytes and seconds; others are ignored.
[[nodiscard]] model::KindRate fit_rate(std::span<const ProfileSample> samples);

}  // namespace tandem::exec
