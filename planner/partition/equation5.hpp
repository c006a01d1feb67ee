#pragma once

// Galaxy's objective (Ye et al., INFOCOM 2024, equation 5), and the split that is best for it.

#include <optional>

#include "planner/partition/budget.hpp"
#include "planner/partition/exact/division.hpp"

namespace tandem::planner {

// Seconds of computing of a request, all layers and the prompt's rows and new tokens together:
//   max over d of L(MHA, A_d, d) + max over d of L(MLP, B_d, d) + max over d of L(CON, S_d, d)
// MHA is the products of attention and attention itself, MLP those of the FFN, CON norms and
// residual adds. Where the strategy parts rows, S_d are a prompt's, equal over the devices that
// hold heads and columns; else every device goes over all rows. Messages are not counted.
struct Equation5 {
  double attention_s = 0.0;
  double ffn_s = 0.0;
  double connective_s = 0.0;
  [[nodiscard]] double total() const { return attention_s + ffn_s + connective_s; }
};
[[nodiscard]] Equation5 equation5(const Plan& plan, const Split& split);

// Seconds of equation 5 in all layers, by device and share; rooms by the budget. Columns are dealt
// in `unit`s, and the problem's heads are head_unit() of the model's each.
[[nodiscard]] DivisionProblem division_problem(const Budget& budget, std::int64_t unit);

// The split within the budget with the least equation 5, exactly: heads are dealt in
// head_unit(), columns in theirs (column_unit), or in the least if only that fits; the connective
// is the same for all splits, as in the paper. Of equally good ones one that gives heads and
// columns to every device, where there is one. Nothing if nothing fits.
[[nodiscard]] std::optional<Split> exact_split(const Budget& budget);

// What no split can be below in equation 5, with the budget's memory and any rows: columns in their
// least unit, and no more devices with rows than are fast.
[[nodiscard]] std::optional<double> equation5_bound(const Budget& budget);

}  // namespace tandem::planner
