#include "advice/fidelity/covering.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <vector>

namespace tandem::test::covering_test {
namespace {

using study::CoveringProblem;
using study::CoveringRow;
using study::FactorLevel;
using study::LevelPair;

bool breaks(const CoveringProblem& problem, const CoveringRow& row) {
  for (std::size_t f = 0; f < row.size(); ++f) {
    for (std::size_t g = f + 1; g < row.size(); ++g)
      if (problem.excludes({f, row[f]}, {g, row[g]})) return true;
  }
  return false;
}

std::vector<CoveringRow> all_rows(const CoveringProblem& problem) {
  std::vector<CoveringRow> rows{{}};
  for (const std::size_t levels : problem.levels) {
    std::vector<CoveringRow> longer;
    for (const CoveringRow& row : rows) {
      for (std::size_t level = 0; level < levels; ++level) {
        longer.push_back(row);
        longer.back().push_back(level);
      }
    }
    rows = std::move(longer);
  }
  std::erase_if(rows, [&](const CoveringRow& row) { return breaks(problem, row); });
  return rows;
}

bool has(const CoveringRow& row, const LevelPair& pair) {
  return row[pair.first.factor] == pair.first.level && row[pair.second.factor] == pair.second.level;
}

// Random exclusions between levels, few enough that rows are left.
CoveringProblem random_problem(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  CoveringProblem problem;
  for (std::size_t f = 0; f < 5; ++f) problem.levels.push_back(1 + random() % 4);
  std::vector<LevelPair> excluded;
  for (int i = 0; i < 6; ++i) {
    const std::size_t f = random() % 4;
    const std::size_t g = f + 1 + random() % (4 - f);
    excluded.push_back({{f, random() % problem.levels[f]}, {g, random() % problem.levels[g]}});
  }
  problem.excludes = [excluded](FactorLevel one, FactorLevel other) {
    if (one.factor > other.factor) std::swap(one, other);
    return std::ranges::find(excluded, LevelPair{one, other}) != excluded.end();
  };
  return problem;
}

}  // namespace

TEST_CASE("study/covering: allowed pairs are those of some row, by enumeration") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const CoveringProblem problem = random_problem(seed);
    const std::vector<CoveringRow> rows = all_rows(problem);
    std::vector<LevelPair> expected;
    for (std::size_t f = 0; f < 5; ++f) {
      for (std::size_t g = f + 1; g < 5; ++g) {
        for (std::size_t a = 0; a < problem.levels[f]; ++a) {
          for (std::size_t b = 0; b < problem.levels[g]; ++b) {
            const LevelPair pair{{f, a}, {g, b}};
            if (std::ranges::any_of(rows, [&](const CoveringRow& row) { return has(row, pair); }))
              expected.push_back(pair);
          }
        }
      }
    }
    CHECK(study::allowed_pairs(problem) == expected);
  }
}

TEST_CASE("study/covering: rows have every allowed pair, break nothing, and are few") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const CoveringProblem problem = random_problem(seed);
    const std::vector<CoveringRow> rows =
        study::covering_rows(problem, [](const CoveringRow&) { return true; });
    for (const LevelPair& pair : study::allowed_pairs(problem))
      CHECK(std::ranges::any_of(rows, [&](const CoveringRow& row) { return has(row, pair); }));
    for (const CoveringRow& row : rows) CHECK_FALSE(breaks(problem, row));
    CHECK(rows.size() <= all_rows(problem).size());
    CHECK(rows == study::covering_rows(problem, [](const CoveringRow&) { return true; }));
  }
}

TEST_CASE("study/covering: 4 factors of 3 levels, of which 9 rows are the least, take at most 13") {
  const CoveringProblem problem{.levels = {3, 3, 3, 3},
                                .excludes = [](FactorLevel, FactorLevel) { return false; }};
  const auto rows = study::covering_rows(problem, [](const CoveringRow&) { return true; });
  CHECK(rows.size() >= 9);
  CHECK(rows.size() <= 13);
}

TEST_CASE("study/covering: every row is accepted, or there is no design") {
  const CoveringProblem problem{.levels = {3, 3, 3},
                                .excludes = [](FactorLevel, FactorLevel) { return false; }};
  const auto even = [](const CoveringRow& row) { return (row[0] + row[1] + row[2]) % 2 == 0; };
  const auto rows = study::covering_rows(problem, even);
  CHECK(std::ranges::all_of(rows, even));
  CHECK_THROWS_AS(
      static_cast<void>(study::covering_rows(problem, [](const CoveringRow&) { return false; })),
      std::logic_error);
}

}  // namespace tandem::test::covering_test
