#pragma once

// A sweep: the prediction of every point of a grid, as lines of one table.

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

// The digests of `sweep`'s points: of `common`, which is what else decides (the program's version,
// the flags), and of the files behind platform and model, so that rows of another scenario are not
// taken for this one's.
[[nodiscard]] std::vector<std::string> settings_of(const Sweep& sweep, Library& library,
                                                   const std::string& common);

// Predicts point `i`: its line of the table, without a line break. What cannot be predicted is a
// line as well, with status "infeasible" or "error" and the reason.
[[nodiscard]] std::string predicted_line(const Sweep& sweep, Library& library, std::size_t i);

// The table of a sweep, of which some lines may be missing. `sweep` must outlive it.
class SweepTable {
 public:
  explicit SweepTable(const Sweep& sweep);

  // Takes the lines that an earlier run of the sweep has left, in `csv`. Throws Error (source, what
  // differs, remedy) for the table of another sweep, or of other settings.
  void take(std::string_view csv, const std::string& source);
  // Line `i`, which predicted_line() gave.
  void set(std::size_t i, std::string line) { lines_[i] = std::move(line); }

  [[nodiscard]] std::vector<std::size_t> missing() const;  // points without a line, ascending
  [[nodiscard]] std::string to_csv() const;                // a header and the lines that there are

 private:
  const Sweep* sweep_;
  std::vector<std::string> lines_;  // by point; empty: missing
};

}  // namespace tandem::study
