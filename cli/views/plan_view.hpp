#pragma once

// What `tandem plan` says of a plan, and of how its strategy was chosen.

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>

#include "advice/choice.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::cli {

// Prints who holds what. `path`: where the plan is; nowhere if empty.
void print_plan(const planner::Plan& plan, const std::string& path, std::ostream& out);
// The same as `--json`.
[[nodiscard]] nlohmann::ordered_json summary_json(const planner::Plan& plan,
                                                  const std::string& path);

// Returns how much slower a plan that takes `seconds` is than the best: "12% longer", for the
// objective throughput "43% less".
[[nodiscard]] std::string compared_text(const study::Choice& choice, double seconds);
// Prints what was chosen, the others' times, and why; which has a contender.
void print_choice(const study::Choice& choice, std::ostream& out);
// The same as the field `choice` of `--json`.
[[nodiscard]] nlohmann::ordered_json choice_json(const study::Choice& choice);

}  // namespace tandem::cli
