#pragma once

#include <optional>
#include <string>

#include "model/predict/similar_profile.hpp"

namespace tandem::cli {

// The row of scenarios/profiles/processors.csv that is called `processor`, upper and lower case
// equal, with its profile; nothing if there is none.
[[nodiscard]] std::optional<model::ReferenceProcessor> reference_processor(
    const std::string& processor);

}  // namespace tandem::cli
