#pragma once

// The answer of `tandem plan` in a few sentences, printed before its tables.

#include <iosfwd>
#include <optional>
#include <string>

#include "advice/choice.hpp"
#include "model/report/result.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::cli {

// Prints that the model fits and on which devices, the predicted times, what takes most of a step's
// time and what would shorten it, the best alternative, and whether the search ended at a limit.
// `shortened`: why the request is not of the usual length; empty: it is, or was given.
void print_answer(const planner::Plan& plan, const model::Result& predicted,
                  const std::optional<study::Choice>& choice, std::size_t platform_devices,
                  const std::string& shortened, std::ostream& out);

// Describes what the critical path of a new token (of the prompt, where there is none) waits for
// most, and what would shorten it. Links are taken as not shared.
[[nodiscard]] std::string bottleneck_text(const planner::Plan& plan);

}  // namespace tandem::cli
