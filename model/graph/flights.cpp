#include "model/graph/flights.hpp"

#include <algorithm>

#include "model/base/error.hpp"

namespace tandem::model {

Flights::Flight& Flights::at(std::int32_t step) {
  const auto found = std::ranges::find(flights_, step, &Flight::step);
  require(found != flights_.end(), "flights: a step that is in flight");
  return *found;
}

double Flights::next() const {
  double first = until_s_;
  for (const Flight& flight : flights_) first = std::min({first, flight.opens, flight.outcome});
  return first;
}

std::vector<std::int32_t> Flights::take_finishes(double last) {
  std::vector<std::int32_t> steps;
  for (Flight& flight : flights_) {
    if (flight.opens > last) continue;
    flight.opens = kUnknown;
    steps.push_back(flight.step);
  }
  return steps;
}

std::vector<StepOutcome> Flights::take_outcomes(double last, double& now) {
  std::vector<StepOutcome> outcomes;
  bool asked = until_s_ <= last;
  double time = asked ? until_s_ : 0.0;
  for (const Flight& flight : flights_) {
    if (flight.outcome > last) continue;
    asked = true;
    time = std::max(time, flight.outcome);
    outcomes.push_back({.step = flight.step, .tokens = {}});
  }
  std::erase_if(flights_, [last](const Flight& flight) { return flight.outcome <= last; });
  if (asked) {
    now = time;
    until_s_ = kUnknown;
  }
  return outcomes;
}

}  // namespace tandem::model
