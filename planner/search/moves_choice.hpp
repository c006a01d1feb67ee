#pragma once

// The choice of what travels for new tokens (Plan::decode_moves).

#include <optional>
#include <string>
#include <vector>

#include "planner/search/search.hpp"

namespace tandem::planner {

struct MovesWay {
  DecodeMoves moves = DecodeMoves::queries;
  std::optional<Plan> plan{};  // none: there is none, for `reason`
  std::string reason{};
  double seconds = 0.0;       // by the request's objective
  double step_bytes = 0.0;    // of all messages of a new token's step
  double prompt_bytes = 0.0;  // of the prompt's, with what migrates behind it
};

struct MovesChoice {
  std::vector<MovesWay> ways{};  // all that the strategy knows (Strategy::moves)
  std::size_t taken = 0;         // of those with a plan the fastest, of equal ones the first
  [[nodiscard]] const MovesWay& best() const { return ways[taken]; }
};

// Plans each way, within memory, and takes the one that is fastest by the request's objective and
// evaluator. Throws as make_plan does.
[[nodiscard]] MovesChoice choose_moves(const Request& request);

// The line that says so: which, and what the others take.
[[nodiscard]] std::string text_of(const MovesChoice& choice, Objective objective);

}  // namespace tandem::planner
