#pragma once

// The flags --temperature, --top-k, --top-p and --seed.

#include "cli/flags/options.hpp"
#include "exec/compute/sampling.hpp"

namespace tandem::cli {

// Returns how tokens are sampled. Throws Usage for flags that have no effect at temperature 0,
// Error for values out of range.
[[nodiscard]] exec::SamplingOptions sampling_of(const Options& options);

}  // namespace tandem::cli
