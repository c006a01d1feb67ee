#pragma once

// What of a plan and of its steps sparse attention cannot do, in whatever strategy.

#include <string>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Throws Error, as sparse attention says it.
[[noreturn]] void refuse_sparse(const std::string& what);

// Throws Error unless prompts of the plan, which has sparse attention, may be lowered with it.
void check_sparse_plan(const Plan& plan);
// Throws Error unless `batch` is a step of one request.
void check_sparse_batch(const Plan& plan, const model::Batch& batch);
// Throws Error for a plan with sparse attention.
void refuse_served_sparse(const Plan& plan);

}  // namespace tandem::planner
