#pragma once

// A run as a loop: a scheduler selects the next step from the outcomes so far and their times. The
// analytic evaluator, SimGrid and the executor call the same scheduler, so one implementation of a
// policy is both predicted and run.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/graph/task_graph.hpp"

namespace tandem::model {

// A submitted step of a run. Times in seconds since the run began.
struct ScheduledStep {
  // Time of submission. Tasks of the step without dependencies start no earlier, except loads,
  // which depend on no batch and run ahead.
  double not_before_s = 0.0;
  Batch batch{};
  // Number of steps whose outcomes were known at submission; the later ones were in flight.
  std::int32_t ended = 0;
  bool operator==(const ScheduledStep&) const = default;
};

// Returns whether any sequence of `steps` begins with positions of another.
[[nodiscard]] inline bool shares_prefixes(std::span<const ScheduledStep> steps) {
  return std::ranges::any_of(steps, [](const ScheduledStep& step) {
    return std::ranges::any_of(step.batch.cache,
                               [](const CacheOp& op) { return op.kind == CacheOpKind::fork; });
  });
}

// The outcome of a step: its last sample on the master or, if it samples nothing, the end of the
// last task of the master's cpu lane.
struct StepOutcome {
  std::int32_t step = 0;
  // The sampled tokens, by row; empty in a prediction, which has no tokens.
  std::vector<std::int32_t> tokens{};
};

// A scheduler's answer.
struct Decision {
  // The step to submit now; the scheduler is called again at once.
  std::optional<ScheduledStep> step{};
  // Without a step: the time of the next call, unless an outcome comes first. Infinity: wait for an
  // outcome; the run is over if no step is in flight.
  double until_s = std::numeric_limits<double>::infinity();
};

// Several steps may be in flight. Lanes execute them in the order of submission, except epilogues
// (TaskGraph::begin_epilogue), which run once everything that they wait for is there.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // Returns the next decision. Called when the run begins, at the time of outcomes, at the time it
  // asked for, and again at once after each step that it returns.
  //   now     never decreases; the time of the step
  //   ended   outcomes since the last call, by step; each step has exactly one
  [[nodiscard]] virtual Decision next(double now, std::span<const StepOutcome> ended) = 0;
};

// Width of one moment in simulation. Outcomes, arrivals that epilogues wait for and requested calls
// within it coincide: epilogues run first, by step, and the scheduler receives all outcomes at
// once. Well above rounding errors and well below the times of any device or link.
[[nodiscard]] inline double same_moment(double time) { return 1e-10 + 1e-12 * time; }

// A source of task graphs by batch.
class GraphSource {
 public:
  virtual ~GraphSource() = default;
  // Returns the graph of one step with this batch. The reference is valid until the next call.
  virtual const TaskGraph& graph_of(const Batch& batch) = 0;
};

// Replays the steps of another run. A step is submitted once as many steps have ended as had then,
// but not before its time.
class RecordedScheduler : public Scheduler {
 public:
  explicit RecordedScheduler(std::vector<ScheduledStep> steps) : steps_(std::move(steps)) {}
  Decision next(double now, std::span<const StepOutcome> ended) override {
    for (const StepOutcome& outcome : ended) ended_.push_back(outcome.step);
    std::ranges::sort(ended_);
    std::size_t first = 0;  // number of first steps that had ended
    while (first < ended_.size() && ended_[first] == static_cast<std::int32_t>(first)) ++first;
    if (next_ == steps_.size() || steps_[next_].ended > static_cast<std::int32_t>(first)) return {};
    if (steps_[next_].not_before_s > now)
      return {.step = {}, .until_s = steps_[next_].not_before_s};
    ScheduledStep step = steps_[next_++];
    step.not_before_s = now;
    return {.step = std::move(step)};
  }

 private:
  std::vector<ScheduledStep> steps_;
  std::size_t next_ = 0;
  std::vector<std::int32_t> ended_;
};

}  // namespace tandem::model
