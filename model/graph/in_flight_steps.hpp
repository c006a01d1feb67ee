#pragma once

// The steps in flight of a simulated run and the times of their next events. Both evaluators use it
// to run epilogues and to report outcomes to a scheduler in the same order.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "model/graph/scheduler.hpp"

namespace tandem::model {

class InFlightSteps {
 public:
  static constexpr double kUnknown = std::numeric_limits<double>::infinity();

  // Adds the next step; steps are numbered from 0.
  void submit() { in_flight_.push_back({.step = count_++}); }
  // Set the time at which everything that a step's epilogue waits for is there, and the time of the
  // step's outcome. Each is set once.
  void set_opens(std::int32_t step, double time) { at(step).opens = time; }
  void set_outcome(std::int32_t step, double time) { at(step).outcome = time; }
  // Sets the time at which the scheduler must be called next.
  void set_until(double time) { until_s_ = time; }

  [[nodiscard]] std::size_t size() const { return in_flight_.size(); }
  [[nodiscard]] std::int32_t count() const { return count_; }  // steps submitted so far
  // Returns whether no step is in flight and no call of the scheduler is due.
  [[nodiscard]] bool over() const { return in_flight_.empty() && until_s_ == kUnknown; }
  // Returns the time of the next event, or kUnknown if none is scheduled.
  [[nodiscard]] double next() const;
  // Returns, ascending and each once, the steps whose epilogue is ready by `last`.
  [[nodiscard]] std::vector<std::int32_t> take_epilogues(double last);
  // Removes the steps with an outcome by `last` and returns their outcomes, ascending by step. Sets
  // `now` to the time at which the scheduler is called; leaves it if no call is due.
  [[nodiscard]] std::vector<StepOutcome> take_outcomes(double last, double& now);

 private:
  struct Step {
    std::int32_t step = 0;
    double opens = kUnknown;  // also once its epilogue has been taken
    double outcome = kUnknown;
  };
  [[nodiscard]] Step& at(std::int32_t step);

  std::vector<Step> in_flight_;  // by step
  std::int32_t count_ = 0;
  double until_s_ = kUnknown;
};

}  // namespace tandem::model
