#pragma once

#include "advice/scenario_source.hpp"

namespace tandem::cli {

// Platforms, models and papers' numbers by name.
[[nodiscard]] study::Scenarios scenarios();

}  // namespace tandem::cli
