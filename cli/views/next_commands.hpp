#pragma once

// What to do with a plan that was just written.

#include <iosfwd>
#include <string>

#include "cli/flags/commands.hpp"
#include "planner/plan/file/plan_file.hpp"

namespace tandem::cli {

// Returns the flags of the command line `arguments` that say what the prompt is, each after a
// blank.
[[nodiscard]] std::string prompt_flags(const Arguments& arguments);

// Prints the commands that predict and run the plan written to `path`, with the weights of `model`.
// `runs`: whether all prompts are known by text or ids, or a run makes them up. `prompt`: as
// prompt_flags().
void print_next(const planner::PlanFile& file, const std::string& path, const std::string& model,
                bool runs, const std::string& prompt, std::ostream& out);

}  // namespace tandem::cli
