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

// The same in overhead and f together; 0 if the sizes do not determine it.
double best_overhead(const Samples& samples) {
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
  const double determinant = aa * bb - ab * ab;
  if (determinant <= 1e-9 * aa * bb) return 0.0;
  return std::max(0.0, (a1 * bb - b1 * ab) / determinant);
}

}  // namespace

model::KindRate fit_rate(std::span<const ProfileSample> samples) {
  std::map<double, Samples> by_intensity;
  for (const ProfileSample& s : samples) {
    if (s.streamed_bytes > 0.0 && s.seconds > 0.0) by_intensity[s.intensity].push_back(s);
  }
  require(!by_intensity.empty(), "a rate needs a measurement");
  model::KindRate rate;
  rate.overhead_s = best_overhead(by_intensity.begin()->second);
  for (const auto& [intensity, group] : by_intensity) {
    rate.points.push_back({intensity, rate_given(group, rate.overhead_s)});
  }
  return rate;
}

}  // namespace tandem::exec
