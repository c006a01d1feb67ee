#pragma once

// Questions of a service's clients to the planner, if this build has the simulator.

#include "cli/flags/options.hpp"
#include "cli/flags/service_flags.hpp"
#include "serve/plan_question.hpp"

namespace tandem::cli {

// Returns how the planner is asked for other plans on the devices of `job`: as by `tandem plan`
// with the devices' profiles, for one request. Each search has a few seconds. Without a plan file
// or the simulator, the reason why it cannot be asked.
[[nodiscard]] serve::PlannerAccess service_planner(const Options& options, const ServiceJob& job);

}  // namespace tandem::cli
