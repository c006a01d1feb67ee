#include "exec/profiling/profile_fit.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::exec {

namespace {

using Samples = std::vector<ProfileSample>;

// Minimises sum over samples of ((overhead + bytes f - seconds) / seconds)^2 in f.
double rate_given(const Samples& samples, double overhead) {
  double along = 0.0;
  double square = 0.0;
  double least = 0.0;  // what the fastest sample would need without any overhead
  for (const ProfileSample& s : samples) {
    const double b = s.streamed_bytes / s.seconds;
    along += b * (1.0 - overhead / s.seconds);
    square += b * b;
    least = least == 0.0 ? 1.0 / b : std::min(least, 1.0 / b);
  }
  // Measured noise must not make bytes free.
  return std::max(along / square, 0.01 * least);
}

// Of one intensity, the overhead of the same problem in overhead and f together, times its weight,
// which is how fast the sum grows beside the overhead; a weight of 0 if the sizes do not determine
// it.
struct Overhead {
  double weight = 0.0;
  double weighted_s = 0.0;
};

Overhead group_overhead(const Samples& samples) {
  double aa = 0.0;
  double ab = 0.0;
  double bb = 0.0;
  double a1 = 0.0;
  double b1 = 0.0;
  for (const ProfileSample& s : samples) {
    const double a = 1.0 / s.seconds;
    const double b = s.streamed_bytes / s.seconds;
    aa += a * a;
    ab += a * b;
    bb += b * b;
    a1 += a;
    b1 += b;
  }
  if (aa * bb - ab * ab <= 1e-9 * aa * bb) return {};
  return {.weight = aa - ab * ab / bb, .weighted_s = a1 - ab * b1 / bb};
}

using ByIntensity = std::map<double, Samples>;

// Sets overhead_s and row_s of `rate`: least squares, given the best f of each intensity, of
//   sum over intensities i of weight (overhead_s + row_s i - overhead of i)^2
void fit_overheads(const ByIntensity& by_intensity, bool by_row, model::KindRate& rate) {
  const Overhead first = group_overhead(by_intensity.begin()->second);
  if (first.weight > 0.0) rate.overhead_s = std::max(0.0, first.weighted_s / first.weight);
  if (!by_row) return;
  double w = 0.0;
  double wi = 0.0;
  double wii = 0.0;
  double s = 0.0;
  double si = 0.0;
  for (const auto& [intensity, group] : by_intensity) {
    const Overhead of = group_overhead(group);
    w += of.weight;
    wi += of.weight * intensity;
    wii += of.weight * intensity * intensity;
    s += of.weighted_s;
    si += of.weighted_s * intensity;
  }
  const double determinant = w * wii - wi * wi;
  if (determinant <= 1e-9 * w * wii) return;
  const double row_s = (w * si - wi * s) / determinant;
  if (row_s <= 0.0) return;
  const double overhead_s = (s * wii - si * wi) / determinant;
  rate.overhead_s = std::max(0.0, overhead_s);
  rate.row_s = overhead_s >= 0.0 ? row_s : std::max(0.0, si / wii);
}

}  // namespace

model::KindRate fit_rate(std::span<const ProfileSample> samples) {
  ByIntensity by_intensity;
  for (const ProfileSample& s : samples) {
    if (s.streamed_bytes > 0.0 && s.seconds > 0.0) by_intensity[s.intensity].push_back(s);
  }
  require(!by_intensity.empty(), "a rate needs a measurement");
  model::KindRate rate;
  fit_overheads(by_intensity, std::ranges::all_of(samples, &ProfileSample::by_row), rate);
  for (const auto& [intensity, group] : by_intensity) {
    rate.points.push_back({intensity, rate_given(group, rate.overhead_s + rate.row_s * intensity)});
  }
  return rate;
}

}  // namespace tandem::exec
