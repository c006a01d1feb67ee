#pragma once

// Hierarchical: sums within each group of near devices, then among the groups' leaders, and back.
// Links between groups carry one term per group instead of one per device. Section 3.2.4 of CSPS
// ("hierarchical communication").

#include <string_view>

#include "planner/collective/tree.hpp"

namespace tandem::planner {

inline constexpr std::string_view kHierarchical = "hierarchical";

// Returns the parents by rank: the first rank of a group, its leader, for members; rank 0 for
// leaders.
[[nodiscard]] Parents hierarchical_parents(const std::vector<std::int32_t>& group);

//   T = 2 (l_in + S / B_in) + 2 (l_out + S / B_out)          nothing shared
//   T = 2 (l_in + l_out) + (3 (g - 1) + 2 (G - 1)) S / B
//                         full-duplex access links of bandwidth B; G groups of g members. A third
//                         time g - 1, as the master sends to its members and to leaders at once
// bytes = 2 (N - 1) S, of which 2 (G - 1) S between groups (star: 2 (N - g) S).
// With one group, or one member in each, this is the star.
[[nodiscard]] Collective hierarchical_collective();

}  // namespace tandem::planner
