#pragma once

// One request whose prompt is read in chunks: a service of one request, by policy `continuous`,
// with at least as many chunks in flight as its plan has stages. While one stage computes a chunk,
// the stage before it computes the next; for every strategy, the memory of a step is that of a
// chunk.

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "advice/prediction.hpp"
#include "planner/plan/workload.hpp"
#include "planner/search/search.hpp"
#include "planner/serving/service_search.hpp"

namespace tandem::study {

// Returns the service: requests, policy and chunk. As many steps are in flight as a plan reserves.
[[nodiscard]] ServedWorkload one_in_chunks(const planner::Workload& workload, std::int64_t chunk);

// Returns whether `served` is such a service.
[[nodiscard]] bool is_one_in_chunks(const ServedWorkload& served);

// How a prompt is read: whole, in chunks of `rows` tokens if it has more, or as is best.
struct PromptReading {
  bool best = false;
  std::int64_t rows = 0;   // not read if `best`; 0: whole
  std::int64_t steps = 0;  // chunks in flight; 0: as planner::best_steps finds
  bool roughly = false;    // as planner::make_layered_plan searches chunks, steps and layers
  // Of the plans that compete; null: of this one alone.
  std::shared_ptr<planner::ReadingTimes> times{};
};

// A plan for one request.
struct PromptPlan {
  planner::Plan plan;
  double seconds = 0.0;                        // by the request's objective: time_of
  std::int64_t chunk = 0;                      // 0: its prompt is read whole
  std::vector<planner::Decision> decisions{};  // of planner::find_plan, with whole prompts
};

// Returns the objective's seconds of `plan` with the prompt in chunks of `chunk` rows (0: whole),
// by sim::extend_fair and sim::evaluate_fair_scheduled. New tokens do not depend on how the prompt
// was read, so with T the time of the request and F that of its first token
//   T(chunks) = T(whole) - F(whole) + F(chunks)
[[nodiscard]] double time_of(const planner::Plan& plan, planner::Objective objective,
                             std::int64_t chunk);

// Makes a plan of the request's strategy whose prompt is read so. Returns Infeasible, with the
// reason, also where the strategy reads prompts whole. Throws Error as make_plan does.
// In chunks, layers are split as for a whole prompt, and for the highest rate, which balances the
// stages; the faster of both counts. The best reading is
// - in chunks that planner::best_chunk finds, on a pipeline whose weights stay in memory, if they
//   save at least 0.1% of the objective;
// - in chunks of planner::longest_fitting_step() rows if the weights and a whole prompt do not fit
//   together: each chunk reads all weights, so longer ones take less time;
// - whole otherwise.
[[nodiscard]] std::variant<PromptPlan, planner::Infeasible> plan_prompt(
    const planner::Request& request, const PromptReading& reading);

// A plan that fits, whose prompt is read in chunks of `chunk` tokens; 0: whole.
struct FittingPlan {
  planner::Plan plan;
  std::int64_t chunk = 0;
};

// Returns a plan of the request's strategy if plan_prompt has one, without predicting its times.
// The best reading is whole if that fits, else in chunks of planner::longest_fitting_step() rows.
// Throws Error as make_plan does.
[[nodiscard]] std::variant<FittingPlan, planner::Infeasible> fit_prompt(
    const planner::Request& request, const PromptReading& reading);

}  // namespace tandem::study
