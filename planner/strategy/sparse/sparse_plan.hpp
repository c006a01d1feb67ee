#pragma once

// Checks for plans and steps that sparse attention does not support, in any strategy.

#include <string>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Throws Error with the prefix of sparse attention.
[[noreturn]] void refuse_sparse(const std::string& what);

// Throws Error unless prompts of the plan, which has sparse attention, can be lowered with it.
void check_sparse_plan(const Plan& plan);
// Throws Error unless `batch` is a step of one request.
void check_sparse_batch(const Plan& plan, const model::Batch& batch);
// Throws Error for a plan with sparse attention.
void refuse_served_sparse(const Plan& plan);

}  // namespace tandem::planner
