#pragma once

#include "study/scenarios.hpp"

namespace tandem::cli {

// Platforms, models and papers' numbers by name, for studies.
[[nodiscard]] study::Scenarios scenarios();

}  // namespace tandem::cli
