#pragma once

// Layers and order of a pipeline's devices by the rate of what goes round them.

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

// Seconds from request to request, where as many go round the stages of `plan` as it has steps in
// flight: the law (model/predict/pipeline_law.hpp) of all that a typical request takes of each
// stage, its prompt and its new tokens. Where several share a step, from group to group of them.
[[nodiscard]] double request_period(const Plan& plan);

// What a typical request takes of each stage in all, with those that share its steps.
[[nodiscard]] model::Ring request_ring(const Plan& plan);

// The outline with so many layers for each stage, of its model's.
using Probe = std::function<Plan(const Plan& outline, std::int64_t layers)>;

// What a typical request takes of stages whose layers are not searched yet.
struct StageTimes {
  Plan one;                                    // a layer for each stage, all like the first
  model::Ring ring{};                          // request_ring of it
  std::vector<double> fixed_s{};               // by stage, whatever its layers
  std::vector<std::vector<double>> layer_s{};  // by stage and layer
};
// With t(l, n) what n layers like l take at a stage,
//   fixed = 2 t(0, 1) - t(0, 2), layer l = (t(l, 2) - fixed) / 2
[[nodiscard]] StageTimes stage_times(const Plan& outline, std::int64_t stages, const Probe& probe);

// Their mean.
[[nodiscard]] double mean_seconds(const std::vector<double>& layers);

// Stages whose layers are searched: as devices of a chain, by the mean of layers, and where these
// are not alike (Transformer::has_uniform_layers) with each layer's own seconds; else `stages` is
// empty.
struct StageChain {
  ChainProblem problem{};
  std::vector<RunStage> stages{};
};
// Of the devices by themselves, in stage_order: the seconds of a whole request.
[[nodiscard]] StageChain stage_chain(const Budget& budget);

struct LayerAssignment {
  std::vector<std::int64_t> layers{};  // by stage
  std::vector<std::size_t> order{};    // of stages
};
// fastest_chain's. Of layers that are not alike the runs of least period
// (partition/exact/run_splits.hpp) in the order that is best for layers of the mean time, and in
// the order given, whichever fit.
[[nodiscard]] std::vector<LayerAssignment> layer_assignments(const StageChain& chain);

// The shares with the least request_period within the budget; nothing if the layers do not fit. Of
// `budget.plan()` shares are not read. Exact as fastest_chain is, where layers are alike, nothing
// shares a link and no stage is told of a step late; of other layers the first of
// layer_assignments.
[[nodiscard]] std::optional<std::vector<model::Share>> shares_by_rate(const Budget& budget);

// By device, how many layers that are not alike each has in the runs of least period
// (partition/exact/run_splits.hpp), devices in stage_order. Nothing if none fit.
[[nodiscard]] std::optional<std::vector<std::int64_t>> fastest_runs(const Budget& budget,
                                                                    std::int64_t samples);

// What no split of the layers, whole or in parts, over all devices of `plan`, a stage each, and no
// order of them can be faster than.
struct RateBound {
  double planned_s = 0.0;      // request_period
  double lower_bound_s = 0.0;  // at most that
  bool exact = false;          // whether orders were searched exactly
};
// Nothing where a stage is of several devices, which may be faster, and where layers are not alike.
[[nodiscard]] std::optional<RateBound> rate_bound(const Plan& plan);

}  // namespace tandem::planner
