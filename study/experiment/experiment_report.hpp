#pragma once

// What `tandem-study experiment` prints and writes.

#include <iosfwd>
#include <string>

#include "model/base/csv.hpp"
#include "study/experiment/experiment.hpp"

namespace tandem::study {

// Gives every notable row without a note the one that `notes` has for it: columns experiment, keys
// (the row's, joined by "/"), quantity, note.
void add_notes(ExperimentReport& report, std::string_view experiment, const model::Csv& notes);

// Rows that are far off and have no note.
[[nodiscard]] std::size_t unexplained(const ExperimentReport& report);

// Of each group of rows with equal keys: a line of the paper, one of tandem, one of the errors.
void print_report(const ExperimentReport& report, std::ostream& out);
// One line a row: keys, quantity, paper, tandem, error_percent, role, note.
[[nodiscard]] std::string to_csv(const ExperimentReport& report);
[[nodiscard]] std::string to_json(const ExperimentReport& report, const Experiment& experiment);

}  // namespace tandem::study
