#pragma once

// What it costs that weights stream from disks instead of staying in memory.

#include <string>

#include "planner/search/search.hpp"

namespace tandem::planner {

// Bytes that the device with the most loads for one new token of `plan`.
[[nodiscard]] double bytes_a_token(const Plan& plan);

// Of a plan that make_plan() answered `request` with, whose window it was to choose, and that
// streams: what a token waits for the disks, with and without them (analytic evaluator, as if
// nothing varied), and which memory would avoid it. Sentences on lines of their own; empty if
// nothing streams, or a window was asked for.
[[nodiscard]] std::string streaming_cost(const Request& request, const Plan& plan);

}  // namespace tandem::planner
