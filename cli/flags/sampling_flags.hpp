#pragma once

// The flags of sampling: --temperature, --top-k, --seed and what planner::sampling_numbers() has.

#include <string>
#include <vector>

#include "cli/flags/options.hpp"
#include "exec/compute/sampling.hpp"

namespace tandem::cli {

// Returns all of them but --seed, whose meaning differs from command to command.
[[nodiscard]] std::vector<Flag> sampling_flags();

// Returns how tokens are sampled. Throws Usage for flags that have no effect at temperature 0,
// Error for values out of range.
[[nodiscard]] exec::SamplingOptions sampling_of(const Options& options);

// Throws Usage for the first flag of sampling that is given, --seed included: it has no effect
// `when`.
void refuse_sampling(const Options& options, const std::string& when);

}  // namespace tandem::cli
