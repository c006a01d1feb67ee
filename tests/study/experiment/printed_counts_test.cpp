// How many of a paper's printed numbers are predicted, each once.

#include "study/experiment/printed_counts.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace tandem::study::printed_counts_test {
namespace {

ExperimentRow row(double paper, double tandem, const char* printed = "") {
  return {.quantity = "s",
          .paper = Reading::number(paper),
          .tandem = Reading::number(tandem),
          .printed = printed};
}

PrintedCounts counts(std::vector<ExperimentRow> rows) {
  const ExperimentReport report{.rows = std::move(rows)};
  return printed_counts({&report, 1});
}

}  // namespace

TEST_CASE("study/printed counts: rows of one printed number count once, by the largest error") {
  CHECK(counts({row(1.0, 1.1, "a"), row(1.0, 1.25, "a"), row(1.0, 1.1)}) ==
        PrintedCounts{.numbers = 2, .within_15 = 1, .within_30 = 2});
  CHECK(counts({row(2.0, 1.0, "a"), row(2.0, 2.0, "a")}) == PrintedCounts{.numbers = 1});
}

TEST_CASE("study/printed counts: tables that repeat a number count it once") {
  const ExperimentReport one{.rows = {row(1.0, 1.0, "a")}};
  const std::vector<ExperimentReport> both{one, {.rows = {row(1.0, 1.2, "a"), row(1.0, 1.0)}}};
  CHECK(printed_counts(both) == PrintedCounts{.numbers = 2, .within_15 = 1, .within_30 = 2});
}

TEST_CASE("study/printed counts: calibrated numbers, formulas and what follows do not count") {
  ExperimentRow calibrated = row(1.0, 1.0, "a");
  calibrated.calibrated = true;
  ExperimentRow formula = row(1.0, 1.0);
  formula.aside = ExperimentRow::Aside::formula;
  ExperimentRow follows = row(1.0, 1.0);
  follows.aside = ExperimentRow::Aside::follows;
  CHECK(counts({calibrated, row(1.0, 1.4, "a"), formula, follows}) == PrintedCounts{});
}

TEST_CASE("study/printed counts: a number without a prediction is in no range and needs a note") {
  ExperimentRow missing{.quantity = "s", .paper = Reading::number(1.0)};
  CHECK(counts({missing}) == PrintedCounts{.numbers = 1});
  CHECK(missing.missed());
  ExperimentRow memory{
      .quantity = "s", .paper = Reading::out_of_memory(), .tandem = Reading::out_of_memory()};
  CHECK(counts({memory}) == PrintedCounts{.numbers = 1, .within_15 = 1, .within_30 = 1});
  memory.tandem = Reading::number(1.0);
  CHECK(counts({memory}) == PrintedCounts{.numbers = 1});
}

}  // namespace tandem::study::printed_counts_test
