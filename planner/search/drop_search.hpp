#pragma once

// Which levels and ratios of sparse attention serve best (CSPS, 3.2.6): the least time to the first
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
  // One of the two.
  std::optional<double> loss{};          // bits per byte, at least 0
  std::optional<double> ttft_s{};        // more than 0
  std::optional<std::int32_t> levels{};  // so many; none given: any number, and none at all
  double step = 0.02;                    // between ratios that are tried; the paper's
};

// What a plan drops, and what that makes of it.
struct DropCandidate {
  std::int32_t levels = 1;  // 1: without sparse attention
  // By band of the loss model, and by level from the second on.
  std::vector<std::vector<double>> drop{};
  double loss = 0.0;
  double ttft_s = 0.0;     // by the analytic evaluator
  double checked_s = 0.0;  // by the request's
};

struct DropChoice {
  Plan plan;
  DropCandidate taken{};
  DropCandidate dense{};       // the fastest with nothing dropped
  std::int64_t evaluated = 0;  // plans whose time was predicted
};

// Ratios are by band and level, multiples of `step` up to the most that was measured, and do not
// fall with the level. Loss is read from `loss`; times of a first token are those of the analytic
// evaluator. More dropped is neither less loss nor, where something is dropped already, a longer
// time: so of the ratios of one band and level the largest within the loss is sought by halving,
// and the search moves along the border of what the loss allows. From several points on it, it
// lowers one ratio (by 1, 2, 4, .. steps, or to 0), raises another as far as the loss then allows,
// and the rest in turn, for as long as that gains. Within a time: the same, for losses found by
// halving, then ratios lowered as far as the time allows. That need not find the best: decision
// 0057 says how far it is from exhaustive search. It is done for each number of levels; of what
// these end in, of plans that drop nothing and of one without levels, the fastest by
// `request.evaluate` is taken, which must also find it within the time that is given.
// `request.sparse` and its objective are not read; shares are those of plans that drop nothing, the
// faster of its speeds and equal ones where the partition is auto. Infeasible: nothing is within
// the time (its reason tells the least there is), or no plan fits. Throws Error as make_plan and
// LossModel do.
[[nodiscard]] std::variant<DropChoice, Infeasible> choose_drop(const Request& request,
                                                               const LossModel& loss,
                                                               const DropBounds& bounds);

// The same among all ratios of the grid, one after another: for comparison.
[[nodiscard]] std::variant<DropChoice, Infeasible> choose_drop_exhaustively(
    const Request& request, const LossModel& loss, const DropBounds& bounds);

// "3 levels, layers 2 to 4 drop 0.5 0.75, 5 to 7 nothing": of a candidate.
[[nodiscard]] std::string describe(const DropCandidate& candidate, const LossModel& loss);

}  // namespace tandem::planner
