#pragma once

// Papers and programs whose parallelism is that of a strategy.

#include <span>
#include <string>
#include <string_view>

namespace tandem::planner {

struct Namesake {
  std::string_view name;      // in lower case, "tpi-llm"
  std::string_view strategy;  // a name of the table of strategies
  std::string_view flags{};   // of `tandem plan` that come closer to it; empty: none
};

[[nodiscard]] std::span<const Namesake> namesakes();

// Returns the names of a strategy's papers and programs, "a, b".
[[nodiscard]] std::string namesakes_of(std::string_view strategy);

// Returns "; '--strategy tensor' corresponds to it" for the name of a paper or program, whatever
// its case, hyphens and dots; empty for other names.
[[nodiscard]] std::string namesake_remedy(std::string_view name);

}  // namespace tandem::planner
