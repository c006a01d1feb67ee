#include "exec/plan_workers.hpp"

#include "planner/session_memory.hpp"
#include "planner/storage.hpp"

namespace tandem::exec {

std::vector<bool> workers_of(const planner::Plan& plan) {
  return planner::workers_of(plan, planner::storage_of(plan, planner::extents_of(plan.reserved())));
}

}  // namespace tandem::exec
