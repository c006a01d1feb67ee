#pragma once

// Rows of measured_clusters_2026.csv: boards, mini PCs and a pair of them, by two programs.

#include <map>
#include <string>

#include "model/base/csv.hpp"
#include "study/experiment/experiment.hpp"
#include "study/experiment/measured_boards.hpp"

namespace tandem::study {

// Adds the rows of `table` to the report: a row whose column `rates` names one of `boards` has its
// constants, others (`platform`) have the rates of their scenario, of which the quantities in
// column `calibrated` set some. Rows with a reason in column `left_out` are listed in the remarks.
// Throws Error (what was expected; restore the file) for anything else in these columns.
void add_measured_2026(const Scenarios& scenarios, const model::Csv& table,
                       const std::map<std::string, Board>& boards, ExperimentReport& report,
                       Progress& progress);

}  // namespace tandem::study
