#pragma once

// Random draws: Propositions 3 to 6 and the closed forms against the recurrence.

#include <cstdint>
#include <string>
#include <vector>

#include "study/propositions/verdict_tally.hpp"

namespace tandem::study {

struct DrawsOptions {
  std::int64_t draws = 100'000;  // of each proposition
  std::uint64_t seed = 1;
};

// Exact token times: how often a closed form differed from the recurrence.
struct FormCheck {
  std::string name{};
  std::int64_t draws = 0;
  std::int64_t different = 0;
};

struct DrawsResult {
  std::vector<Tally> tallies;
  std::vector<FormCheck> forms;
};

[[nodiscard]] DrawsResult run_draws(const DrawsOptions& options);

// The draws of Proposition 5 alone (part of run_draws): as printed, and the exact value.
[[nodiscard]] std::vector<Tally> run_memory_draws(const DrawsOptions& options);

}  // namespace tandem::study
