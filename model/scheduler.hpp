#pragma once

// A run as a loop: a scheduler says which step comes next, given what the step before has sampled
// and when. The analytic evaluator, SimGrid and the executor ask the same scheduler, so that a
// policy is predicted and run by the same lines.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/task_graph.hpp"

namespace tandem::model {

// One step of a run, as it was submitted. Times in seconds since the run began.
struct ScheduledStep {
  // Tasks of the step without dependencies start no earlier; loads excepted, as they depend on no
  // batch and run ahead.
  double not_before_s = 0.0;
  Batch batch{};
  bool operator==(const ScheduledStep&) const = default;
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // The step that comes next, or nothing when the run is over; it lies at `now` or later.
  //   now     when the outcome of the step before was there: the end of its last sample on the
  //           master or, where it samples nothing, of the last task of the master's cpu lane; 0 for
  //           the first step
  //   tokens  that the step before sampled, in the order of its rows; empty in a prediction, which
  //           knows no tokens
  // Every step is asked for once, in order.
  [[nodiscard]] virtual std::optional<ScheduledStep> next(double now,
                                                          std::span<const std::int32_t> tokens) = 0;
};

// Where the graphs of batches come from.
class GraphSource {
 public:
  virtual ~GraphSource() = default;
  // The graph of one step with this batch. Valid until the next call.
  virtual const TaskGraph& graph_of(const Batch& batch) = 0;
};

// A run whose steps are known: those that another has made. Ignores what happens.
class RecordedScheduler : public Scheduler {
 public:
  explicit RecordedScheduler(std::vector<ScheduledStep> steps) : steps_(std::move(steps)) {}
  // Not before it was submitted then, nor before the outcome of the step before.
  std::optional<ScheduledStep> next(double now, std::span<const std::int32_t> /*tokens*/) override {
    if (next_ == steps_.size()) return std::nullopt;
    ScheduledStep step = steps_[next_++];
    if (step.not_before_s < now) step.not_before_s = now;
    return step;
  }

 private:
  std::vector<ScheduledStep> steps_;
  std::size_t next_ = 0;
};

}  // namespace tandem::model
