#pragma once

// Galaxy's objective (Ye et al., INFOCOM 2024, equation 5), and the split that minimises it.

#include <optional>

#include "planner/partition/budget.hpp"
#include "planner/partition/exact/division.hpp"

namespace tandem::planner {

// Compute seconds of a request, over all layers, the prompt's rows and the new tokens:
//   max over d of L(MHA, A_d, d) + max over d of L(MLP, B_d, d) + max over d of L(CON, S_d, d)
// MHA is the products of attention and attention itself, MLP those of the FFN, CON norms and
// residual adds. If the strategy splits rows, the S_d of a prompt are equal over the devices that
// hold heads and columns; else every device computes all rows. Messages are not counted.
struct Equation5 {
  double attention_s = 0.0;
  double ffn_s = 0.0;
  double connective_s = 0.0;
  [[nodiscard]] double total() const { return attention_s + ffn_s + connective_s; }
};
[[nodiscard]] Equation5 equation5(const Plan& plan, const Split& split);

// Returns the seconds of equation 5 in all layers, by device and share, and the limits by the
// budget. Columns come in `unit`s, and the problem's heads stand for head_unit() of the model's
// each.
[[nodiscard]] DivisionProblem division_problem(const Budget& budget, std::int64_t unit);

// Returns the split within the budget that minimises equation 5, exactly. Heads come in
// head_unit(), columns in column_unit(), or in the mandatory unit if only that fits; the connective
// term is the same for all splits, as in the paper. Of equally good splits one that gives heads and
// columns to every device, if there is one. Nothing if nothing fits.
[[nodiscard]] std::optional<Split> exact_split(const Budget& budget);

// Returns a lower bound on equation 5 over all splits, with the budget's memory and any rows:
// columns in their mandatory unit, and no more devices with rows than are fast.
[[nodiscard]] std::optional<double> equation5_bound(const Budget& budget);

}  // namespace tandem::planner
