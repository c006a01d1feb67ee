#pragma once

// When the steps of a served run are under way, by draw of the devices' errors.

#include <cstddef>
#include <span>
#include <vector>

#include "model/predict/drawn_steps.hpp"
#include "model/predict/factor_draws.hpp"
#include "model/report/trace.hpp"
#include "planner/plan/inference_request.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::study {

// The time of a predicted run, stretched: while steps are under way, it passes as many times as
// slowly as these steps take longer in a draw than without errors, each alone (in the mean, where
// several are in flight). Where none is, the next step begins at its time, or, if those before it
// take longer than that, after them. No step begins before the arrival of a request that begins in
// it.
class DrawnTimeline {
 public:
  // `served` are all steps of the run, in the order of their submission.
  DrawnTimeline(const planner::Plan& plan, const model::FactorDraws& draws,
                std::span<const planner::InferenceRequest> requests,
                std::span<const model::ServedStep> served);

  // The steps of draw `k`: of draw 0 those that were given. Valid until the next call.
  [[nodiscard]] std::span<const model::ServedStep> draw(std::size_t k);

 private:
  [[nodiscard]] double at(double time, std::size_t k) const;

  std::span<const model::ServedStep> served_;
  std::vector<model::ServedStep> drawn_{};
  std::vector<double> times_{};                 // when steps begin or end, ascending
  std::vector<model::DrawnTimes> stretched_{};  // the same, by draw
};

}  // namespace tandem::study
