#include "model/graph/in_flight_steps.hpp"

#include <algorithm>

#include "model/base/error.hpp"

namespace tandem::model {

InFlightSteps::Step& InFlightSteps::at(std::int32_t step) {
  const auto found = std::ranges::find(in_flight_, step, &Step::step);
  require(found != in_flight_.end(), "flights: a step that is in flight");
  return *found;
}

double InFlightSteps::next() const {
  double first = until_s_;
  for (const Step& flight : in_flight_) first = std::min({first, flight.opens, flight.outcome});
  return first;
}

std::vector<std::int32_t> InFlightSteps::take_epilogues(double last) {
  std::vector<std::int32_t> steps;
  for (Step& flight : in_flight_) {
    if (flight.opens > last) continue;
    flight.opens = kUnknown;
    steps.push_back(flight.step);
  }
  return steps;
}

std::vector<StepOutcome> InFlightSteps::take_outcomes(double last, double& now) {
  std::vector<StepOutcome> outcomes;
  bool asked = until_s_ <= last;
  double time = asked ? until_s_ : 0.0;
  for (const Step& flight : in_flight_) {
    if (flight.outcome > last) continue;
    asked = true;
    time = std::max(time, flight.outcome);
    outcomes.push_back({.step = flight.step, .tokens = {}});
  }
  std::erase_if(in_flight_, [last](const Step& flight) { return flight.outcome <= last; });
  if (asked) {
    now = time;
    until_s_ = kUnknown;
  }
  return outcomes;
}

}  // namespace tandem::model
