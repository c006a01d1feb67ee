#pragma once

// What `tandem plan --max-loss` says of a plan's types: what each loses and saves.

#include <optional>

#include "cli/flags/loss.hpp"
#include "cli/flags/workload_flags.hpp"
#include "cli/views/loss_view.hpp"
#include "model/report/result.hpp"
#include "planner/search/search.hpp"

namespace tandem::cli {

// Returns what the plan loses: by its types and, of sparse attention, by what it drops.
[[nodiscard]] planner::PlanLoss loss_of_plan(const planner::Plan& plan, const PricedFormats& priced,
                                             double most, double dropping);

// Returns that with the options. `predicted` is the plan's prediction; a plan with another type is
// predicted with its shares, so a plan made for that type may be faster.
[[nodiscard]] LossAnswer loss_answer(const planner::Plan& plan, const planner::PlanLoss& loss,
                                     const PricedFormats& priced, const planner::Request& request,
                                     const std::optional<Served>& served,
                                     const model::Result& predicted);

}  // namespace tandem::cli
