#pragma once

// Lower bounds on the time of a request for plans that may stream weights, at a small part of the
// cost of a prediction: candidates that are too slow by the bound need no prediction.

#include <vector>

#include "model/graph/memory.hpp"
#include "model/graph/task_graph.hpp"
#include "model/predict/cost_model.hpp"
#include "model/predict/program.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::planner {

class LeastRequestTime {
 public:
  // `outline`: a plan of a strategy that splits, whose devices are not read.
  explicit LeastRequestTime(const Plan& outline);

  struct Least {  // seconds: the prompt's step, and all other steps together
    double prompt = 0.0;
    double tokens = 0.0;
    [[nodiscard]] double total() const { return prompt + tokens; }
  };
  // Returns a lower bound, to rounding, on predicted_request_time (window_search.hpp) of the
  // outline with these shares and all weights resident; values of `enough` or more may be any such
  // bound. Zeros if some layers have a window of attention.
  //   In a step of few layers, all but the first and the last are equal. If the longest path passes
  // the same action in two of those, it extends to any number of layers by repetition. A step
  // begins when the one before has sampled. Times are convex in the positions before a token, so
  // all tokens take at least the time of as many at the mean number of positions. If layers differ
  // in formats, each action of a layer takes the least of its times in any layer.
  [[nodiscard]] Least in_memory(const std::vector<model::Share>& shares, double enough);

  // Returns the same with the windows of `plan`, whose shares `in_memory` belongs to (or is zeros):
  // at least that, and at least the time of each disk for the device's streamed weights. A token's
  // blocks that fit the window may be in memory before the step.
  [[nodiscard]] double streamed(const Plan& plan, const Least& in_memory) const;

 private:
  [[nodiscard]] double step(const Plan& few, const model::Program& program,
                            const model::TaskGraph& graph) const;
  [[nodiscard]] double prompt(const Plan& few) const;
  [[nodiscard]] double tokens(const Plan& few) const;  // all of them
  // Returns how much faster, at most, the master's head is in tiles than whole, in one step.
  [[nodiscard]] double tiles_gain(const Plan& plan) const;

  std::vector<Plan> few_;  // of ever more layers, with the most recent shares
  std::int64_t layers_;
  bool bounded_;
  model::CostModel costs_;
  std::vector<model::CostModel> kinds_{};  // of layers in different formats, each as all layers
};

}  // namespace tandem::planner
