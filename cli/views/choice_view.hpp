#pragma once

// How a plan's strategy was chosen, as `tandem plan` shows it.

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>

#include "advice/choice.hpp"

namespace tandem::cli {

// Returns how much slower a plan that takes `seconds` is than the best: "12% longer", for the
// objective throughput "43% less".
[[nodiscard]] std::string compared_text(const study::Choice& choice, double seconds);
// Prints what was chosen, the others' times, and why; which has a contender.
void print_choice(const study::Choice& choice, std::ostream& out);
// The same as the field `choice` of `--json`.
[[nodiscard]] nlohmann::ordered_json choice_json(const study::Choice& choice);

}  // namespace tandem::cli
