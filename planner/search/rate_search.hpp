#pragma once

// The layers and order of a pipeline's devices that maximise its rate.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/predict/pipeline_law.hpp"
#include "planner/partition/budget.hpp"
#include "planner/partition/exact/chain.hpp"
#include "planner/partition/exact/run_splits.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::planner {

// Returns the seconds from request to request with as many in circulation as `plan` has steps in
// flight: the law (model/predict/pipeline_law.hpp) applied to the times of a typical request,
// prompt and new tokens, in each stage. If several requests share a step, from group to group of
// them.
[[nodiscard]] double request_period(const Plan& plan);

// Returns the times of a typical request in each stage, with those that share its steps.
[[nodiscard]] model::Ring request_ring(const Plan& plan);

// Returns the outline with so many of its model's layers in each stage.
using Probe = std::function<Plan(const Plan& outline, std::int64_t layers)>;

// Times of a typical request in stages without assigned layers.
struct StageTimes {
  Plan one;                                    // one layer for each stage, all equal to the first
  model::Ring ring{};                          // request_ring of it
  std::vector<double> fixed_s{};               // by stage, whatever its layers
  std::vector<std::vector<double>> layer_s{};  // by stage and layer
};
// With t(l, n) the time of n layers equal to l in a stage,
//   fixed = 2 t(0, 1) - t(0, 2), layer l = (t(l, 2) - fixed) / 2
[[nodiscard]] StageTimes stage_times(const Plan& outline, std::int64_t stages, const Probe& probe);

// Returns their mean.
[[nodiscard]] double mean_seconds(const std::vector<double>& layers);

// Stages without assigned layers: as devices of a chain, by mean layer time. If layers are not
// uniform (Transformer::has_uniform_layers), `stages` has each layer's own time; else it is empty.
struct StageChain {
  ChainProblem problem{};
  std::vector<RunStage> stages{};
};
// Returns the chain of single devices, in stage_order, with the seconds of a whole request.
[[nodiscard]] StageChain stage_chain(const Budget& budget);

struct LayerAssignment {
  std::vector<std::int64_t> layers{};  // by stage
  std::vector<std::size_t> order{};    // of stages
};
// Returns fastest_chain's result. For non-uniform layers, the runs of least period
// (partition/exact/run_splits.hpp) in the best order for layers of the mean time, and in the given
// order, as far as they fit.
[[nodiscard]] std::vector<LayerAssignment> layer_assignments(const StageChain& chain);
// Returns the shares with the least request_period within the budget; nothing if the layers do not
// fit. Shares of `budget.plan()` are not read. Exact as fastest_chain is if layers are uniform, no
// link is shared and every stage is informed of steps in time; for other layers the first of
// layer_assignments.
[[nodiscard]] std::optional<std::vector<model::Share>> shares_by_rate(const Budget& budget);

// Returns, by device, the number of non-uniform layers in the runs of least period
// (partition/exact/run_splits.hpp), devices in stage_order. Nothing if none fit.
[[nodiscard]] std::optional<std::vector<std::int64_t>> fastest_runs(const Budget& budget,
                                                                    std::int64_t samples);

// Lower bound on the period over all splits of the layers, whole or in parts, over all devices of
// `plan`, one stage each, and over all orders.
struct RateBound {
  double planned_s = 0.0;      // request_period
  double lower_bound_s = 0.0;  // not above planned_s
  bool exact = false;          // whether orders were searched exactly
};
// Nothing if a stage has several devices, which may be faster, or if layers are not uniform.
[[nodiscard]] std::optional<RateBound> rate_bound(const Plan& plan);

}  // namespace tandem::planner
