#pragma once

// The search for levels and ratios of sparse attention (CSPS, 3.2.6): the least time to the first
// token within a loss, or the least loss within a time (docs/decisions/0057).

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "planner/search/loss_model.hpp"
#include "planner/search/search.hpp"

namespace tandem::planner {

struct DropBounds {
  // Exactly one of the two is given.
  std::optional<double> loss{};          // bits per byte, at least 0
  std::optional<double> ttft_s{};        // more than 0
  std::optional<std::int32_t> levels{};  // none given: any number, including no sparse attention
  double step = 0.02;                    // between candidate ratios; the paper's value
};

// A candidate's ratios and their predicted effect.
struct DropCandidate {
  std::int32_t levels = 1;  // 1: without sparse attention
  // By band of the loss model, and by level from the second on.
  std::vector<std::vector<double>> drop{};
  double loss = 0.0;
  double ttft_s = 0.0;     // by the analytic evaluator
  double checked_s = 0.0;  // by the request's evaluator
};

struct DropChoice {
  Plan plan;
  DropCandidate taken{};
  DropCandidate dense{};       // the fastest plan that drops nothing
  std::int64_t evaluated = 0;  // plans with a predicted time
};

// Ratios are by band and level: multiples of `step` up to the largest measured one, never
// decreasing with the level. `loss` predicts the loss, the analytic evaluator the time to the first
// token. Dropping more never lowers the loss nor, once something is dropped, raises the time: so
// the largest ratio of a band and level within the loss is found by bisection, and the search moves
// along the boundary of feasible losses. From several points on it, it lowers one ratio (by 1, 2,
// 4, .. steps, or to 0), raises another as far as the loss then allows, and then the rest in turn,
// while that gains. For a time limit it does the same for losses found by bisection, then lowers
// ratios as far as the time allows. The result is a local optimum: decision 0057 has its gap to
// exhaustive search. This runs for each number of levels. Among the results, the plans that drop
// nothing and the plan without levels, the fastest by `request.evaluate` is selected; that
// evaluator must also confirm the time limit. `request.sparse` and its objective are not read;
// shares are those of plans that drop nothing: with partition auto the faster of shares by speed
// and equal shares. Infeasible if nothing meets the time limit (its reason states the least time)
// or no plan fits. Within a LossBudget this runs for each pair of types that it allows, within what
// they leave of the loss. Throws Error as make_plan and LossModel do.
[[nodiscard]] std::variant<DropChoice, Infeasible> choose_drop(const Request& request,
                                                               const LossModel& loss,
                                                               const DropBounds& bounds);

// The same by exhaustive search over all ratios of the grid, for comparison.
[[nodiscard]] std::variant<DropChoice, Infeasible> choose_drop_exhaustively(
    const Request& request, const LossModel& loss, const DropBounds& bounds);

// Describes a candidate: "3 levels, layers 2 to 4 drop 0.5 0.75, 5 to 7 nothing".
[[nodiscard]] std::string describe(const DropCandidate& candidate, const LossModel& loss);

}  // namespace tandem::planner
