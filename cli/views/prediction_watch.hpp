#pragma once

// A run beside its prediction, while tokens come and at the end.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "exec/session/execute.hpp"
#include "model/report/result.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::cli {

// Deviations are as in `tandem compare`: predicted minus the run's value, in percent of the latter.
class PredictionWatch {
 public:
  // `predicted`: of this run, as read_prediction() checks it.
  explicit PredictionWatch(model::Result predicted) : predicted_(std::move(predicted)) {}

  // The run so far, in a few words: of one request, the mean latency of its tokens beside that of
  // the same tokens predicted; of many, the mean time of those that have ended beside the same
  // ones' predicted.
  [[nodiscard]] std::string token(const exec::TokenMoment& token);

  // What to say of a run that is over, one line each: times that leave their 90% interval, or,
  // where the prediction has none, that deviate by more than 10%, are named as such; then the
  // device or link whose time deviates most.
  [[nodiscard]] std::vector<std::string> summary(const model::Result& run,
                                                 const planner::Plan& plan) const;

 private:
  [[nodiscard]] std::string request_token(const exec::TokenMoment& token);

  model::Result predicted_;
  std::vector<double> times_s_{};  // of the only request's tokens
  std::size_t ended_ = 0;          // of many requests
  double run_s_ = 0.0;             // of those, from arrival to end
  double predicted_s_ = 0.0;
};

}  // namespace tandem::cli
