#pragma once

// A sweep: the predictions of all points of a grid, as lines of one table.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "advice/prediction.hpp"
#include "advice/sweep/fields.hpp"
#include "advice/sweep/grid.hpp"

namespace tandem::study {

struct Sweep {
  Setup base;
  Grid grid;
  EvaluatorKind evaluator = EvaluatorKind::simgrid;
  // By point: a digest of everything but the varied values (settings_of).
  std::vector<std::string> settings{};
};

// Returns the digests of `sweep`'s points, over `common` (the program's version, the flags) and the
// files of platform and model, so that rows of another scenario are not mistaken for this one's.
[[nodiscard]] std::vector<std::string> settings_of(const Sweep& sweep, Library& library,
                                                   const std::string& common);

// Predicts point `i` and returns its line of the table, without a line break. A failure is a line
// as well, with status "infeasible" or "error" and the reason.
[[nodiscard]] std::string predicted_line(const Sweep& sweep, Library& library, std::size_t i);

// The table of a sweep; some lines may be missing. `sweep` must outlive it.
class SweepTable {
 public:
  explicit SweepTable(const Sweep& sweep);

  // Reads the lines of an earlier run of the sweep from `csv`. Throws Error (source, difference,
  // remedy) for the table of another sweep or of other settings.
  void take(std::string_view csv, const std::string& source);
  // Sets line `i`, a result of predicted_line().
  void set(std::size_t i, std::string line) { lines_[i] = std::move(line); }

  [[nodiscard]] std::vector<std::size_t> missing() const;  // points without a line, ascending
  [[nodiscard]] std::string to_csv() const;                // a header and the lines that there are

 private:
  const Sweep* sweep_;
  std::vector<std::string> lines_;  // by point; empty: missing
};

}  // namespace tandem::study
