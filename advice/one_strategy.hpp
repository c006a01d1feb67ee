#pragma once

// The plan of one strategy on given devices: `tandem plan --strategy NAME`.

#include <variant>

#include "advice/question.hpp"
#include "planner/search/search.hpp"

namespace tandem::study {

// Returns the best plan of the request's strategy on all of its devices with its master, searched
// as choose() plans a setting in full: the request's values on axes are kept, and what it leaves
// open is searched (Question::keeps_axes is taken as true). Seconds are by sim::evaluate_fair.
// Returns Infeasible with the planner's reason. Throws Error as make_plan does.
[[nodiscard]] std::variant<Contender, planner::Infeasible> plan_strategy(const Question& question);

}  // namespace tandem::study
