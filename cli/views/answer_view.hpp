#pragma once

// The answer of `tandem plan` in a few sentences, printed before its tables.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

#include "advice/choice.hpp"
#include "cli/flags/workload_flags.hpp"
#include "model/report/result.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/objective.hpp"

namespace tandem::cli {

// What was asked and found.
struct PlanAnswer {
  const planner::Plan& plan;
  const std::optional<Served>& served;
  const model::Result& predicted;
  const std::optional<study::Choice>& choice;
  planner::Objective objective = planner::Objective::request;
  std::size_t platform_devices = 0;
  // Why the request is not of the usual length; empty: it is, or was given.
  const std::string& shortened;
  // Prints what can be changed without buying anything.
  std::function<void(std::ostream&)> print_free{};
};

// Prints that the model fits and on which devices, the predicted times, what takes most of a step's
// time (of the prompt where the objective is its time, or it takes more than all new tokens), the
// free changes, then what to buy against it, the best alternative, and whether the search ended at
// a limit.
void print_answer(const PlanAnswer& answer, std::ostream& out);

struct BottleneckText {
  std::string found{};   // a sentence; empty: nothing takes time
  std::string remedy{};  // what must be bought to shorten it
};

// Describes what the critical path of a new token waits for most, or that of the prompt if
// `of_prompt` or without new tokens, with links shared as in predicted times. `served`: how the
// only request is; nothing: its prompt is read whole.
[[nodiscard]] BottleneckText bottleneck_text(const planner::Plan& plan, bool of_prompt,
                                             const std::optional<Served>& served = std::nullopt);

}  // namespace tandem::cli
