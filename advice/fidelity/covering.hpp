#pragma once

// Few rows that cover all pairs of levels: pairwise covering arrays with exclusions.

#include <cstddef>
#include <functional>
#include <vector>

namespace tandem::study {

// One level of one factor, by position.
struct FactorLevel {
  std::size_t factor = 0;
  std::size_t level = 0;
  bool operator==(const FactorLevel&) const = default;
};

struct LevelPair {  // of two factors, first.factor < second.factor
  FactorLevel first;
  FactorLevel second;
  bool operator==(const LevelPair&) const = default;
};

struct CoveringProblem {
  std::vector<std::size_t> levels;  // of each factor, at least 1
  // Whether no row may have both; symmetric.
  std::function<bool(FactorLevel, FactorLevel)> excludes;
};

using CoveringRow = std::vector<std::size_t>;  // a level of each factor

// The pairs that some row has which breaks no exclusion.
[[nodiscard]] std::vector<LevelPair> allowed_pairs(const CoveringProblem& problem);

// Rows, all of them accepted by `accept`, that together have every allowed pair. Greedy, as AETG:
// each row starts from a pair that is not covered yet and takes for each further factor, in a
// random order, the level that covers most; the best of some tries is kept. Cohen et al., IEEE TSE
// 23(7), 1997. Where `accept` rejects all of these, the first random row that it accepts is taken.
// Deterministic: equal problems give equal rows on every machine. Throws logic_error if `accept`
// rejects all tries of a row.
[[nodiscard]] std::vector<CoveringRow> covering_rows(
    const CoveringProblem& problem, const std::function<bool(const CoveringRow&)>& accept);

}  // namespace tandem::study
