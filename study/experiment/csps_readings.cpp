// CSPS's printed numbers by two readings: operations and bytes (csps-figure2 to csps-figure17), and
// software's cost of steps (csps-steps). Both are counted over the same numbers.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "study/experiment/experiment.hpp"

namespace tandem::study {
namespace {

// The reading's row that compares with a printed number, the farthest if there are several.
struct Farthest {
  ExperimentRow row{};
  bool found = false;
  bool calibrates = false;
  bool follows = false;
};

double distance(const ExperimentRow& row) {
  const auto error = row.error();
  return error ? std::abs(*error) : std::numeric_limits<double>::infinity();
}

using Numbers = std::map<std::string, Farthest>;

void collect(const ExperimentReport& report, Numbers& numbers, std::vector<std::string>& order) {
  for (const ExperimentRow& row : report.rows) {
    if (row.paper.kind != Reading::Kind::number || row.aside == ExperimentRow::Aside::quotient ||
        row.printed.empty())
      continue;
    Farthest& number = numbers[row.printed];
    if (std::ranges::find(order, row.printed) == order.end()) order.push_back(row.printed);
    number.calibrates = number.calibrates || row.calibrated;
    number.follows = number.follows || row.aside == ExperimentRow::Aside::follows;
    if (!number.found || distance(row) > distance(number.row)) number.row = row;
    number.found = true;
  }
}

class Within {
 public:
  void add(const Farthest& number) {
    constexpr double kNearCount = 0.15;
    constexpr double kFarCount = 0.30;
    near_ += number.found && distance(number.row) <= kNearCount ? 1 : 0;
    far_ += number.found && distance(number.row) <= kFarCount ? 1 : 0;
  }
  [[nodiscard]] std::string text() const {
    return std::to_string(near_) + " within 15%, " + std::to_string(far_) + " within 30%";
  }

 private:
  int near_ = 0;
  int far_ = 0;
};

// The count of one set of numbers, by both readings.
struct ReadingTally {
  int numbers = 0;
  Within operations{};
  Within steps{};
  void add(const Farthest& by_operations, const Farthest& by_steps) {
    ++numbers;
    operations.add(by_operations);
    steps.add(by_steps);
  }
  [[nodiscard]] std::string text(const std::string& of) const {
    return of + ": " + std::to_string(numbers) + " numbers; by operations " + operations.text() +
           "; by steps " + steps.text();
  }
};

}  // namespace

ExperimentReport csps_readings(const Scenarios& scenarios, Progress& progress) {
  Numbers by_operations;
  Numbers by_steps;
  std::vector<std::string> order;
  for (const auto run : {csps_figure2, csps_figure5, csps_figure10, csps_figure14, csps_figure17,
                         csps_table3, csps_drop})
    collect(run(scenarios, progress), by_operations, order);
  collect(csps_by_steps(scenarios, progress), by_steps, order);
  ExperimentReport report{.key_names = {"printed number"}};
  ReadingTally all;
  ReadingTally unfitted;
  ReadingTally own;
  for (const std::string& printed : order) {
    const Farthest& operations = by_operations[printed];
    const Farthest& steps = by_steps[printed];
    for (const auto& [quantity, number] :
         {std::pair("by operations", &operations), std::pair("by steps", &steps)}) {
      const double paper = (operations.found ? operations : steps).row.paper.value;
      report.rows.push_back({.keys = {printed},
                             .quantity = quantity,
                             .paper = Reading::number(paper),
                             .tandem = number->row.tandem,
                             .calibrated = number->calibrates,
                             .aside = number->follows && !number->calibrates
                                          ? ExperimentRow::Aside::follows
                                          : ExperimentRow::Aside::none,
                             .note = number->found ? "explained in the experiment of its figure"
                                                   : "this reading does not predict it"});
    }
    all.add(operations, steps);
    if (operations.calibrates || steps.calibrates) continue;
    unfitted.add(operations, steps);
    if (!operations.follows && !steps.follows) own.add(operations, steps);
  }
  report.remarks = {
      "a printed number counts once, by the row farthest from it (models and variants that the "
      "paper does not distinguish); a number that a reading does not predict is in no range",
      all.text("all, fitted ones included"),
      unfitted.text("without those that fit a constant of either reading"),
      own.text("also without what follows from a reading's fitted numbers alone")};
  return report;
}

}  // namespace tandem::study
