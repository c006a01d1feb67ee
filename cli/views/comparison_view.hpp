#pragma once

// What `tandem compare` prints.

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/report/comparison.hpp"

namespace tandem::cli {

// "predicted", "replayed", "measured", by the origins of the results at `paths`; "measured
// (emulated)", "measured (testbed)" where measured results have several paces. Of several with the
// same one, with the file's name, "measured (laptop)", or its whole path where that is needed to
// tell them apart.
[[nodiscard]] std::vector<std::string> labels_of(const std::vector<std::string>& paths,
                                                 const std::vector<model::ResultOrigin>& origins);

// A table of the run, its requests, devices and the kinds of task that deviate most; then what each
// result's times are judged by. `=` marks deviations between calculated values.
void print_comparison(const model::Comparison& comparison, std::ostream& out);
// A line for each result whose times are not simply predicted or measured on the devices.
void print_origins(const model::Comparison& comparison, std::ostream& out);

// Schema "tandem.comparison/3" (docs/reference/commands.md). `paths`: of the results.
[[nodiscard]] nlohmann::ordered_json comparison_json(const model::Comparison& comparison,
                                                     const std::vector<std::string>& paths,
                                                     const std::vector<std::string>& remarks);

}  // namespace tandem::cli
