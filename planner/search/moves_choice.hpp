#pragma once

// The choice of what travels for new tokens (Plan::decode_moves).

#include <optional>
#include <string>
#include <vector>

#include "planner/search/search.hpp"

namespace tandem::planner {

struct DecodeOption {
  DecodeMoves moves = DecodeMoves::queries;
  std::optional<Plan> plan{};  // none: there is none, for `reason`
  std::string reason{};
  double seconds = 0.0;       // by the request's objective
  double step_bytes = 0.0;    // of all messages of a new token's step
  double prompt_bytes = 0.0;  // of the prompt's, with what migrates behind it
};

struct DecodeChoice {
  std::vector<DecodeOption> options{};  // all that the strategy knows (Strategy::moves)
  std::size_t selected = 0;             // of those with a plan the fastest, of equal ones the first
  [[nodiscard]] const DecodeOption& best() const { return options[selected]; }
};

// Plans each option, within memory, and takes the one that is fastest by the request's objective
// and evaluator. Throws as make_plan does.
[[nodiscard]] DecodeChoice choose_moves(const Request& request);

// The line that says so: which, and what the others take.
[[nodiscard]] std::string describe(const DecodeChoice& choice, Objective objective);

}  // namespace tandem::planner
