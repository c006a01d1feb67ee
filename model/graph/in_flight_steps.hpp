#pragma once

// The steps in flight of a simulated run, and what happens to them when: the order in which both
// evaluators run epilogues and tell a scheduler of outcomes.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "model/graph/scheduler.hpp"

namespace tandem::model {

class InFlightSteps {
 public:
  static constexpr double kUnknown = std::numeric_limits<double>::infinity();

  // The next step is submitted; steps are numbered from 0.
  void submit() { in_flight_.push_back({.step = count_++}); }
  // Say when what the epilogue of a step waits for is there, and when the step has its outcome.
  // Each is said once.
  void set_opens(std::int32_t step, double time) { at(step).opens = time; }
  void set_outcome(std::int32_t step, double time) { at(step).outcome = time; }
  // Says when the scheduler wants to be asked again.
  void set_until(double time) { until_s_ = time; }

  [[nodiscard]] std::size_t size() const { return in_flight_.size(); }
  [[nodiscard]] std::int32_t count() const { return count_; }  // of steps so far
  // Whether no step is in flight, and the scheduler does not want to be asked.
  [[nodiscard]] bool over() const { return in_flight_.empty() && until_s_ == kUnknown; }
  // When the next thing happens that is known of; kUnknown if there is none.
  [[nodiscard]] double next() const;
  // Returns the steps whose epilogue is to be taken up by `last`, ascending. Each comes once.
  [[nodiscard]] std::vector<std::int32_t> take_epilogues(double last);
  // Returns the outcomes by `last`, ascending by step; `now` becomes the time at which the
  // scheduler is asked, or stays if it is not. Their steps are in flight no more.
  [[nodiscard]] std::vector<StepOutcome> take_outcomes(double last, double& now);

 private:
  struct Step {
    std::int32_t step = 0;
    double opens = kUnknown;  // also once its epilogue is taken up
    double outcome = kUnknown;
  };
  [[nodiscard]] Step& at(std::int32_t step);

  std::vector<Step> in_flight_;  // by step
  std::int32_t count_ = 0;
  double until_s_ = kUnknown;
};

}  // namespace tandem::model
