#pragma once

// Brings a device's caches back to what its own processor would have kept while the device waited.

#include <cstddef>
#include <vector>

#include "exec/compute/compute.hpp"
#include "exec/emulation/pacer.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::exec {

// A round of the compute tasks that one token takes of a device, on memory of their own but for the
// weights. A round begins with the task after the one that the device executed last, so it leaves
// code and weights in the caches as a device leaves them that computes token after token without a
// pause, which is what profiles measure. Prompts are not rehearsed: those of profiles follow a
// pause, too (decision 0017).
class Rehearsal final : public CacheRefill {
 public:
  // The largest shards that are rehearsed, in bytes: a round takes a millisecond or two.
  static constexpr double kMostBytes = 16.0 * 1024 * 1024;

  // `graph` is of one token with nothing before it. `limits` are those of `device`; a rehearsal
  // takes the memory of one row. Throws as Compute does.
  Rehearsal(const model::TaskGraph& graph, model::DeviceIndex device,
            const model::Transformer& transformer, const Shard& shard, ComputeLimits limits);

  void executed(const model::Task& task) override;
  void refill() override;

  // The tasks of a round, in the order of the graph, and which of them comes first in the next.
  [[nodiscard]] const std::vector<model::Task>& tasks() const { return tasks_; }
  [[nodiscard]] std::size_t next() const { return next_; }

 private:
  model::Batch batch_;
  Compute compute_;
  std::vector<model::Task> tasks_;
  std::size_t next_ = 0;
  bool of_prompt_ = true;  // the task that was executed last
};

}  // namespace tandem::exec
