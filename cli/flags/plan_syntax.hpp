#pragma once

// The table of flags of `tandem plan`.

#include "cli/flags/options.hpp"

namespace tandem::cli {

[[nodiscard]] Syntax plan_syntax();

}  // namespace tandem::cli
