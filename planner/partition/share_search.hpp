#pragma once

// The search for shares of heads and FFN columns by predicted time: --partition auto.

#include <functional>
#include <optional>
#include <vector>

#include "planner/partition/budget.hpp"

namespace tandem::planner {

struct SplitCandidates {
  std::vector<Split> splits;
  bool memory_binds = false;  // more memory might have given other splits
};

// Returns candidate splits, each within the budget and with something for every device, the most
// promising first: the result of a search by the analytic evaluator, Galaxy's split, and equal
// shares, as far as they fit. Empty only if no split fits (any_split).
//   The search starts from each of the other two. An evaluated step gives, for every device, the
// delay that would not delay the end. The shares then move so that the latest device beyond that is
// as early as whole heads and columns allow, and the step is evaluated again, until nothing is
// gained. Then single heads and ever smaller runs of columns move as long as that helps. Prompt and
// new tokens (one step at the mean context) count as often as they occur. Layers are uniform, so
// few are evaluated. If weights stream, what streams differs from layer to layer, so this
// evaluation (a block counts the longer of computing and loading) only directs the search:
// `streamed` then returns the time of a request with the whole plan of a split, which decides, for
// as many splits as `kStreamedTasks` allows. fits, by which all else is decided, for as many splits
// as `kStreamedTasks` allows.
struct SplitTime {
  std::function<double(const Split&)> time{};
  // Lower bound of `time` at a small part of its cost; values of `enough` or more need not be
  // exact. It saves most calls of `time` and changes no answer.
  std::function<double(const Split&, double enough)> least{};
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(time); }
};
[[nodiscard]] SplitCandidates split_candidates(const Budget& budget,
                                               const SplitTime& streamed = {});

// Returns a split that fits and has something for every device if there is one, by dynamic
// programming over devices and heads. Complete: neither a faster device nor more memory can make a
// cluster infeasible.
[[nodiscard]] std::optional<Split> any_split(const Budget& budget);

}  // namespace tandem::planner
