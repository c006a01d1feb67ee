#include "advice/fidelity/covering.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>

namespace tandem::study {
namespace {

constexpr std::size_t kOpen = std::numeric_limits<std::size_t>::max();  // no level chosen yet
constexpr int kTries = 50;                                              // of a row, by gain
constexpr int kMostTries = 5000;                                        // with those at random
constexpr std::uint64_t kSeed = 20261127;

bool fits(const CoveringProblem& problem, const CoveringRow& row, FactorLevel added) {
  for (std::size_t f = 0; f < row.size(); ++f) {
    if (f != added.factor && row[f] != kOpen && problem.excludes({f, row[f]}, added)) return false;
  }
  return true;
}

// Levels of a factor, the most wanted first.
using Preference = std::function<std::vector<std::size_t>(const CoveringRow&, std::size_t factor)>;

// Chooses levels of the open factors of `row` in `order` from position `next` on, with
// backtracking. False, and `row` as before, if there are none.
bool complete(const CoveringProblem& problem, const std::vector<std::size_t>& order,
              const Preference& prefer, std::size_t next, CoveringRow& row) {
  while (next < order.size() && row[order[next]] != kOpen) ++next;
  if (next == order.size()) return true;
  const std::size_t factor = order[next];
  for (const std::size_t level : prefer(row, factor)) {
    if (!fits(problem, row, {factor, level})) continue;
    row[factor] = level;
    if (complete(problem, order, prefer, next + 1, row)) return true;
    row[factor] = kOpen;
  }
  return false;
}

std::vector<std::size_t> counted(std::size_t count) {
  std::vector<std::size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  return numbers;
}

CoveringRow row_with(const CoveringProblem& problem, const LevelPair& pair) {
  CoveringRow row(problem.levels.size(), kOpen);
  row[pair.first.factor] = pair.first.level;
  row[pair.second.factor] = pair.second.level;
  return row;
}

// std::shuffle gives other orders with other standard libraries.
void shuffle(std::vector<std::size_t>& numbers, std::mt19937_64& random) {
  for (std::size_t i = numbers.size(); i > 1; --i) std::swap(numbers[i - 1], numbers[random() % i]);
}

bool has(const CoveringRow& row, const LevelPair& pair) {
  return row[pair.first.factor] == pair.first.level && row[pair.second.factor] == pair.second.level;
}

std::size_t covered_by(const CoveringRow& row, const std::vector<LevelPair>& open) {
  return static_cast<std::size_t>(
      std::ranges::count_if(open, [&](const LevelPair& pair) { return has(row, pair); }));
}

// The levels of a factor by how many open pairs they cover with those that are chosen, ties in a
// random order.
std::vector<std::size_t> by_gain(const CoveringProblem& problem, const std::vector<LevelPair>& open,
                                 std::mt19937_64& random, const CoveringRow& row,
                                 std::size_t factor) {
  std::vector<std::size_t> levels = counted(problem.levels[factor]);
  shuffle(levels, random);
  std::vector<std::size_t> gains(levels.size(), 0);
  for (const LevelPair& pair : open) {
    for (const auto& [mine, other] :
         {std::pair(pair.first, pair.second), std::pair(pair.second, pair.first)})
      if (mine.factor == factor && row[other.factor] == other.level) ++gains[mine.level];
  }
  std::ranges::stable_sort(levels, std::greater<>(),
                           [&](std::size_t level) { return gains[level]; });
  return levels;
}

CoveringRow best_row(const CoveringProblem& problem, const std::vector<LevelPair>& open,
                     const std::function<bool(const CoveringRow&)>& accept,
                     std::mt19937_64& random) {
  std::optional<CoveringRow> best;
  std::size_t most = 0;
  for (int i = 0; i < kMostTries && (i < kTries || !best); ++i) {
    CoveringRow row = row_with(problem, open.front());
    std::vector<std::size_t> order = counted(problem.levels.size());
    shuffle(order, random);
    const auto prefer = [&](const CoveringRow& part, std::size_t factor) {
      if (i < kTries) return by_gain(problem, open, random, part, factor);
      // What covers most may always be rejected.
      std::vector<std::size_t> levels = counted(problem.levels[factor]);
      shuffle(levels, random);
      return levels;
    };
    if (!complete(problem, order, prefer, 0, row) || !accept(row)) continue;
    const std::size_t gain = covered_by(row, open);
    if (gain <= most) continue;
    most = gain;
    best = std::move(row);
  }
  if (!best) throw std::logic_error("covering_rows: no accepted row has some pair of levels");
  return *best;
}

}  // namespace

std::vector<LevelPair> allowed_pairs(const CoveringProblem& problem) {
  const std::vector<std::size_t> order = counted(problem.levels.size());
  const auto in_order = [&](const CoveringRow&, std::size_t factor) {
    return counted(problem.levels[factor]);
  };
  std::vector<LevelPair> pairs;
  for (std::size_t f = 0; f < order.size(); ++f) {
    for (std::size_t g = f + 1; g < order.size(); ++g) {
      for (std::size_t a = 0; a < problem.levels[f]; ++a) {
        for (std::size_t b = 0; b < problem.levels[g]; ++b) {
          const LevelPair pair{{f, a}, {g, b}};
          if (problem.excludes(pair.first, pair.second)) continue;
          CoveringRow row = row_with(problem, pair);
          if (complete(problem, order, in_order, 0, row)) pairs.push_back(pair);
        }
      }
    }
  }
  return pairs;
}

std::vector<CoveringRow> covering_rows(const CoveringProblem& problem,
                                       const std::function<bool(const CoveringRow&)>& accept) {
  std::mt19937_64 random(kSeed);
  std::vector<LevelPair> open = allowed_pairs(problem);
  std::vector<CoveringRow> rows;
  while (!open.empty()) {
    rows.push_back(best_row(problem, open, accept, random));
    std::erase_if(open, [&](const LevelPair& pair) { return has(rows.back(), pair); });
  }
  return rows;
}

}  // namespace tandem::study
