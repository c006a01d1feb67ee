// All papers: their distinct printed numbers, and how many of them are predicted how well.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "study/experiment/printed_counts.hpp"

namespace tandem::study {
namespace {

// Each experiment is one part of the whole.
class Silent : public Progress {
 public:
  void expect(std::size_t /*total*/) override {}
  void advance(std::size_t /*parts*/) override {}
};

}  // namespace

ExperimentReport papers(const Scenarios& scenarios, Progress& progress) {
  std::vector<std::string_view> order;
  std::map<std::string_view, std::vector<ExperimentReport>> reports;
  progress.expect(experiments().size());
  for (const Experiment& experiment : experiments()) {
    if (!experiment.paper.empty()) {
      if (!reports.contains(experiment.paper)) order.push_back(experiment.paper);
      Silent silent;
      reports[experiment.paper].push_back(experiment.run(scenarios, silent));
    }
    progress.advance(1);
  }
  ExperimentReport report{
      .key_names = {"paper"},
      .remarks = {"a printed number counts once, with the largest error of the rows that compare "
                  "with it; those that calibrate a constant, that follow from such ones alone, or "
                  "that compare a formula with itself do not count"}};
  const auto add = [&](std::string_view paper, const PrintedCounts& counts) {
    for (const auto& [quantity, value] : {std::pair("printed_numbers", counts.numbers),
                                          std::pair("within_15_percent", counts.within_15),
                                          std::pair("within_30_percent", counts.within_30)}) {
      report.rows.push_back({.keys = {std::string(paper)},
                             .quantity = quantity,
                             .tandem = Reading::number(static_cast<double>(value))});
    }
  };
  for (const std::string_view paper : order) add(paper, printed_counts(reports.at(paper)));
  return report;
}

}  // namespace tandem::study
