#pragma once

#include <optional>
#include <string>

#include "model/predict/similar_profile.hpp"

namespace tandem::cli {

// The row of scenarios/profiles/processors.csv that is called `processor`, upper and lower case
// alike, with its profile. Throws Error, with the known names, if there is none.
[[nodiscard]] model::ReferenceProcessor reference_processor(const std::string& processor);

}  // namespace tandem::cli
