#pragma once

// The output of `tandem-study experiment`.

#include <iosfwd>
#include <string>

#include "model/base/csv.hpp"
#include "study/experiment/experiment.hpp"

namespace tandem::study {

// Adds the notes of `notes` to notable rows without one: columns experiment, keys (the row's,
// joined by "/"), quantity, note.
void add_notes(ExperimentReport& report, std::string_view experiment, const model::Csv& notes);

// Returns the number of rows with a large error and no note.
[[nodiscard]] std::size_t unexplained(const ExperimentReport& report);

// Prints each group of rows with equal keys: a line of the paper, one of tandem, one of the errors.
void print_report(const ExperimentReport& report, std::ostream& out);
// Returns one line a row: keys, quantity, paper, tandem, error_percent, role, note.
[[nodiscard]] std::string to_csv(const ExperimentReport& report);
[[nodiscard]] std::string to_json(const ExperimentReport& report, const Experiment& experiment);

}  // namespace tandem::study
