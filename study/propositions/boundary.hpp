#pragma once

// The figure's points: the disk's cost per token on both sides of the steady condition.

#include <string>
#include <vector>

#include "study/steady_state/boundary_points.hpp"

namespace tandem::study {

struct SeriesPoint {
  std::string series;  // "recurrence", "simulated", "replayed"
  std::int64_t window = 1;
  model::ReleaseRule release = model::ReleaseRule::early;
  double slack = 0.0;           // (C - D) / D
  double stall_fraction = 0.0;  // (token time - C) / token time, as SteadyState::stall_fraction
};

// Returns the points of the figure: times like the worked example's (attention 10.5, FFN 17.5,
// all-reduce 14 ms), with loads scaled so that slack goes from -50% to +50%, for windows of 1
// (early), 2 (late) and 3 (early): by the recurrence in steps of 1% and, if requested, by SimGrid
// in 25 steps; then `replayed`.
[[nodiscard]] std::vector<SeriesPoint> boundary_series(bool simulate,
                                                       const std::vector<BoundaryPoint>& replayed);

}  // namespace tandem::study
