#pragma once

// Points across the steady condition's boundary, of runs at nominal pace elsewhere
// (bench/boundary_points.py): the third series of the figure of `tandem-study propositions`.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "study/steady_state/memory_schedule.hpp"

namespace tandem::study {

// Returns (C - D) / D, the relative excess of a token's compute and communication over its loads,
// from a result's figures: its time, the share of that spent waiting for the disk, and slack_s = C
// - D. Throws logic_error unless C > slack_s.
[[nodiscard]] double relative_slack(double token_time_s, double stall_fraction, double slack_s);

struct BoundaryPoint {
  std::int64_t window = kUnlimited;
  model::ReleaseRule release = model::ReleaseRule::early;
  double slack = 0.0;  // relative_slack
  // (T - C) / T, T the token time and C that of a token that never waits for a disk: as
  // SteadyState::stall_fraction, not the waits of a single device, part of which others hide.
  double predicted_stall_fraction = 0.0;
  double replayed_stall_fraction = 0.0;  // may be negative: T and C are from two runs
  bool operator==(const BoundaryPoint&) const = default;
};

// CSV with a header line; columns in any order, others are ignored:
//   window                    blocks, or "unlimited"
//   release                   "early", "late"
//   slack                     -1 to 100
//   predicted_stall_fraction  0 to 1
//   replayed_stall_fraction   -1 to 1
// Throws Error naming `source`, the line, the column, its value, what was expected and the remedy.
[[nodiscard]] std::vector<BoundaryPoint> parse_boundary_points(std::string_view text,
                                                               std::string_view source);
[[nodiscard]] std::string to_csv(const std::vector<BoundaryPoint>& points);

}  // namespace tandem::study
