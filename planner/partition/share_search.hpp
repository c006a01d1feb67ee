#pragma once

// Shares of heads and FFN columns by predicted time: --partition auto of strategies that split.

#include <functional>
#include <optional>
#include <vector>

#include "planner/partition/budget.hpp"

namespace tandem::planner {

struct SplitCandidates {
  std::vector<Split> splits;
  bool memory_binds = false;  // more memory might have given others
};

// Splits worth a whole plan, each within the budget and with something for every device, the most
// promising first: that of a search by the analytic evaluator, Galaxy's, equal shares; of these
// those that fit. Empty only if no split fits (any_split).
//   The search begins with each of the others. An evaluated step tells by how much every device
// could be later without delaying the end; the shares are then moved so that the device that is
// latest beyond that is as early as whole heads and columns allow, and the step is evaluated again,
// until nothing is gained; then single heads and smaller and smaller runs of columns are moved for
// as long as that helps. Prompt and new tokens (one step at the mean context) count as often as
// they come. Layers are alike, so few are evaluated. Where weights stream, that only tells how to
// go on (a block counts the longer of computing and loading), as what streams is not alike from
// layer to layer: `streamed` then has the time of a request with the whole plan of a split that
// fits, by which all else is decided, for as many splits as `kStreamedTasks` allows.
struct SplitTime {
  std::function<double(const Split&)> time{};
  // What `time` is not below, at a small part of the cost; what is `enough` or more may be any
  // such. With it `time` is not asked for most splits, and the answers are the same.
  std::function<double(const Split&, double enough)> least{};
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(time); }
};
[[nodiscard]] SplitCandidates split_candidates(const Budget& budget,
                                               const SplitTime& streamed = {});

// A split that fits, if there is one with something for every device: found for certain, by
// dynamic programming over devices and heads. Hence neither a faster device nor more memory can
// make a cluster infeasible.
[[nodiscard]] std::optional<Split> any_split(const Budget& budget);

}  // namespace tandem::planner
