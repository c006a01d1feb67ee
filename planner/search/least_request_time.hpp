#pragma once

// What a request takes at least with a plan that may stream weights, at a small part of the cost of
// its prediction: what is too slow by that need not be predicted.

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

  struct Least {  // seconds: of the prompt's step, and of all others together
    double prompt = 0.0;
    double tokens = 0.0;
    [[nodiscard]] double total() const { return prompt + tokens; }
  };
  // What no predicted_request_time (window_search.hpp) of the outline with these shares and all
  // weights in memory is below by more than rounding; `enough` of it may be less than could be
  // told. Zeros where layers are not alike.
  //   Of a step of few layers, all but the first and the last are alike. Where the longest path
  // comes by the same action in two of those, there is a path through any number of layers that
  // goes on in the same way. A step begins when the one before has sampled. Times are convex in the
  // positions before a token, so that all tokens take at least what as many do with the mean number
  // of positions.
  [[nodiscard]] Least in_memory(const std::vector<model::Share>& shares, double enough);

  // The same with the windows of `plan`, whose shares `in_memory` is of, or zeros: no less than
  // that, nor than each disk takes to load what the device streams. Of a token's blocks those that
  // its window holds may be there before the step.
  [[nodiscard]] double streamed(const Plan& plan, const Least& in_memory) const;

 private:
  [[nodiscard]] double step(const Plan& few, const model::Program& program,
                            const model::TaskGraph& graph) const;
  [[nodiscard]] double prompt(const Plan& few) const;
  [[nodiscard]] double tokens(const Plan& few) const;  // all of them
  // By how much the master's head may be faster in tiles than whole, in one step.
  [[nodiscard]] double tiles_gain(const Plan& plan) const;

  std::vector<Plan> few_;  // of ever more layers, with the shares that were asked for last
  std::int64_t layers_;
  bool bounded_;
  model::CostModel costs_;
};

}  // namespace tandem::planner
