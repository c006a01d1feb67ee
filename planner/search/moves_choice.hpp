#pragma once

// The choice of what travels for new tokens (Plan::decode_moves).

#include <optional>
#include <string>
#include <vector>

#include "planner/partition/search_effort.hpp"
#include "planner/search/search.hpp"

namespace tandem::planner {

struct DecodeOption {
  DecodeMoves moves = DecodeMoves::queries;
  std::optional<Plan> plan{};  // none: infeasible, for `reason`
  std::string reason{};
  double seconds = 0.0;       // by the request's objective
  double step_bytes = 0.0;    // all messages of a new token's step
  double prompt_bytes = 0.0;  // all messages of the prompt's step and the migration after it
};

struct DecodeChoice {
  std::vector<DecodeOption> options{};  // all that the strategy supports (Strategy::moves)
  std::size_t selected = 0;             // the fastest with a plan; ties: the first
  [[nodiscard]] const DecodeOption& best() const { return options[selected]; }
};

// Plans every option within memory and selects the fastest by the request's objective and
// evaluator. Throws as make_plan does. The limits of
// `effort` apply once the first variant has a plan.
[[nodiscard]] DecodeChoice choose_moves(const Request& request, SearchEffort& effort);

// Describes the choice and the alternatives in one line.
[[nodiscard]] std::string describe(const DecodeChoice& choice, Objective objective);

}  // namespace tandem::planner
