#pragma once

// Which strategy answers a request soonest.

#include <string>
#include <variant>
#include <vector>

#include "planner/search.hpp"

namespace tandem::planner {

inline constexpr std::string_view kAutoStrategy = "auto";

// The best plan of one strategy.
struct Contender {
  Plan plan;
  double seconds = 0.0;  // of the request, by the evaluator that was asked for
};

struct StrategyChoice {
  std::vector<Contender> contenders{};  // the soonest first; empty: no strategy has a plan
  // Strategies without one, and the first line of why.
  std::vector<std::pair<std::string, std::string>> without{};
};

// Makes `request` with every strategy, each with its best shares, collectives and tiles, and ranks
// the plans by the predicted time of the whole request. `request`'s strategy, partition, allreduce
// and tiles are not read. Strategies that stream no weights are left out where a window is asked
// for. Throws Error as make_plan does.
[[nodiscard]] StrategyChoice choose_strategy(Request request);

// Why the first contender is the one, beside the runner-up, in a user's words: one sentence without
// a full stop. Throws logic_error without two contenders.
[[nodiscard]] std::string why_first(const StrategyChoice& choice);

}  // namespace tandem::planner
