#pragma once

// The flag --prefix-cache: whether requests share the caches of common prefixes.

#include <span>

#include "cli/flags/options.hpp"
#include "planner/plan/inference_request.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::cli {

// The flag of commands that serve requests as they come, and of those with workloads.
inline constexpr Flag kLivePrefixFlag{
    .name = "prefix-cache",
    .value = "STATE",
    .help =
        "on: the caches of ended requests are kept, and a prompt is read from where it differs "
        "from all earlier ones; off: it is read whole [on]"};
inline constexpr Flag kPrefixFlag{
    .name = "prefix-cache",
    .value = "STATE",
    .help =
        "on: the caches of ended requests are kept, and a prompt is read from where it differs "
        "from all earlier ones; off: it is read whole [on if the workload states prefixes, "
        "else off]"};

// Whether the flag asks for sharing, which requires the tokens of a workload's prompts.
[[nodiscard]] bool asks_for_prefixes(const Options& options);

// Returns whether `requests` to `plan` share prefixes: by the flag or else as `usual`. Throws Usage
// if the flag asks for what the plan cannot do; if it is only usual, a remark.
[[nodiscard]] bool shares_prefixes(const Options& options, const planner::Plan& plan,
                                   std::span<const planner::InferenceRequest> requests, bool usual);

}  // namespace tandem::cli
