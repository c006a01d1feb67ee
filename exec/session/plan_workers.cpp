#include "exec/session/plan_workers.hpp"

#include "planner/memory/plan_storage.hpp"
#include "planner/memory/session_memory.hpp"

namespace tandem::exec {

std::vector<bool> workers_of(const planner::Plan& plan) {
  return planner::workers_of(plan, planner::storage_of(plan, planner::extents_of(plan.reserved())));
}

}  // namespace tandem::exec
