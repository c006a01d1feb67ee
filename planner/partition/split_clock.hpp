#pragma once

// The time of a split by the analytic evaluator, and its slack.

#include <vector>

#include "model/graph/task_graph.hpp"
#include "planner/partition/budget.hpp"
#include "planner/partition/exact/earliest.hpp"

namespace tandem::planner {

// Times are those of a request of the plan's workload, up to a constant: the prompt's step and
// new_tokens - 1 steps at the mean context, for a model of a few layers, as layers are uniform.
// Streamed weights count as resident, except in the times of single blocks.
class SplitClock {
 public:
  // `budget` and its plan, whose shares are not read, outlive the clock.
  explicit SplitClock(const Budget& budget);

  [[nodiscard]] double time(const Split& split);

  // The result of measure(): the split's time(), and by phase and device how long an attention
  // (FFN) block might take without delaying the end, all else equal. For a device without heads
  // (columns) that follows from its columns (heads).
  struct Measured {
    double time = 0.0;
    std::vector<std::vector<double>> heads_limit;
    std::vector<std::vector<double>> columns_limit;
  };
  [[nodiscard]] Measured measure(const Split& split);

  // Returns the race for heads (columns) with the measured limits. The phases are the prompt and,
  // if there are any, the other new tokens. A device with a window streams if its part of the heads
  // (columns) is larger than the part of the model that its memory holds; a block then takes the
  // longer of loading and computing it.
  [[nodiscard]] Race heads(const Measured& measured) const;
  [[nodiscard]] Race columns(const Measured& measured) const;

 private:
  struct BlockTimes {             // of one device
    std::vector<double> heads{};  // by number of heads
    double first_column = 0.0;
    double next_column = 0.0;
    std::int64_t resident_columns = 0;  // columns beyond these stream
    double load_column = 0.0;
    [[nodiscard]] double columns(std::int64_t count) const;
    // Returns the most of `all` that complete in `seconds`.
    [[nodiscard]] std::int64_t columns_within(double seconds, std::int64_t all) const;
  };
  struct Phase {
    model::Batch batch;
    double weight = 1.0;
    std::vector<BlockTimes> blocks;  // by DeviceIndex
  };
  [[nodiscard]] Phase phase(const Budget& budget, const model::Batch& batch, double weight) const;
  void set(const Split& split);

  Plan plan_;  // of a few layers, with the most recent shares
  model::CostModel costs_;
  std::vector<Phase> phases_;
};

}  // namespace tandem::planner
