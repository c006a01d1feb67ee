#pragma once

// A run as a loop: a scheduler says which step comes next, given what steps have sampled and when.
// The analytic evaluator, SimGrid and the executor ask the same scheduler, so that a policy is
// predicted and run by the same lines.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/graph/task_graph.hpp"

namespace tandem::model {

// One step of a run, as it was submitted. Times in seconds since the run began.
struct ScheduledStep {
  // When it was submitted: tasks of the step without dependencies start no earlier; loads excepted,
  // as they depend on no batch and run ahead.
  double not_before_s = 0.0;
  Batch batch{};
  // Whoever made it knew the outcomes of the first so many steps; those after them were in flight.
  std::int32_t ended = 0;
  bool operator==(const ScheduledStep&) const = default;
};

// What became of a step: the last sample on the master or, where it samples nothing, the last task
// of the master's cpu lane is done.
struct StepOutcome {
  std::int32_t step = 0;
  // That it sampled, in the order of its rows; empty in a prediction, which knows no tokens.
  std::vector<std::int32_t> tokens{};
};

// What a scheduler says when it is asked.
struct Decision {
  // This step is submitted now, and the scheduler asked again at once.
  std::optional<ScheduledStep> step{};
  // Without a step: it asks to be asked again at this time, if no outcome comes before. Infinity:
  // not before an outcome; the run is over if no step is in flight.
  double until_s = std::numeric_limits<double>::infinity();
};

// Several steps may be in flight: lanes take them up in the order in which they were submitted, but
// for the epilogue of a step (TaskGraph::begin_epilogue), which is taken up when what it waits for
// is there.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // Says what comes next. It is asked when the run begins, at the time of outcomes, at the time
  // that it asked for, and again at once after each step that it gives.
  //   now     never decreases; the step lies at it
  //   ended   outcomes since it was asked last, by step; each step has exactly one
  [[nodiscard]] virtual Decision next(double now, std::span<const StepOutcome> ended) = 0;
};

// Outcomes, arrivals of what epilogues wait for and times asked for that lie no further apart than
// this are one moment, in simulation: epilogues are then taken up first, by step, and the scheduler
// learns all outcomes at once. Well above rounding, well below what any device or link knows of.
[[nodiscard]] inline double same_moment(double time) { return 1e-10 + 1e-12 * time; }

// Where the graphs of batches come from.
class GraphSource {
 public:
  virtual ~GraphSource() = default;
  // The graph of one step with this batch. The reference is valid until the next call.
  virtual const TaskGraph& graph_of(const Batch& batch) = 0;
};

// A run whose steps are known: those that another has made. A step is submitted when as many steps
// have ended as had then, but not before its time.
class RecordedScheduler : public Scheduler {
 public:
  explicit RecordedScheduler(std::vector<ScheduledStep> steps) : steps_(std::move(steps)) {}
  Decision next(double now, std::span<const StepOutcome> ended) override {
    for (const StepOutcome& outcome : ended) ended_.push_back(outcome.step);
    std::ranges::sort(ended_);
    std::size_t first = 0;  // so many of the first steps have ended
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
