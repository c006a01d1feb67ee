#pragma once

// `tandem run FOLDER --emulate`: every replica of a folder, one after another.

#include <ostream>

#include "cli/flags/commands.hpp"
#include "cli/flags/options.hpp"

namespace tandem::cli {

// `tandem run` for one plan: returns its exit code.
using RunPlan = int (*)(Options options, std::ostream& out);

// Calls `run` for the plan of each replica, with `options` otherwise. Emulated devices have clocks
// of their own, so replicas that share nothing may be run one after another. Prints the requests of
// all, and writes the result of all to --out. Returns the first exit code that is not 0. Throws
// Usage for flags of a single plan.
int run_replicas(const Options& options, RunPlan run, std::ostream& out);

}  // namespace tandem::cli
