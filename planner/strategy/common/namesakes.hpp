#pragma once

// Papers and programs whose parallelism is that of a strategy (Strategy::namesakes).

#include <string>
#include <string_view>

#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

// Returns the names of the strategy's papers and programs, "a, b".
[[nodiscard]] std::string namesakes_of(const Strategy& strategy);

// Returns "; '--strategy tensor' corresponds to it" for the name of a paper or program, whatever
// its case, hyphens and dots; empty for other names.
[[nodiscard]] std::string namesake_remedy(std::string_view name);

}  // namespace tandem::planner
