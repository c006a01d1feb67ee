#pragma once

// Layers and order of a pipeline's devices by the rate of what goes round them.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/recurrent.hpp"
#include "planner/partition/budget.hpp"
#include "planner/partition/chain.hpp"
#include "planner/plan.hpp"

namespace tandem::planner {

// Seconds from request to request, where as many go round the stages of `plan` as it has steps in
// flight: the law (model/recurrent.hpp) of all that a typical request takes of each stage, its
// prompt and its new tokens. Where several share a step, from group to group of them.
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
// A layer's seconds are those of a model whose layers are all like it, with two for each stage less
// with one.
[[nodiscard]] StageTimes stage_times(const Plan& outline, std::int64_t stages, const Probe& probe);

// Their mean.
[[nodiscard]] double mean_seconds(const std::vector<double>& layers);

// What the search is made for, with the mean of layers: by device in stage_order, the seconds of a
// whole request.
[[nodiscard]] ChainProblem chain_problem(const Budget& budget);

// The shares with the least request_period within the budget; nothing if the layers do not fit. Of
// `budget.plan()` shares are not read. Exact as fastest_chain is, where layers are alike, nothing
// shares a link and no stage is told of a step late; of other layers the runs are fastest_runs' in
// the order that is best for layers of the mean time.
[[nodiscard]] std::optional<std::vector<model::Share>> shares_by_rate(const Budget& budget);

// Of layers that are not alike (Transformer::layers_alike), what a run takes, and the memory that
// it needs, depends on where it begins. By device, how many layers, one at least, each has in the
// runs that follow one another in `order`: those with which a typical request takes least within
// the budget or, with several samples that go round, their period. Exact for that order, as
// shares_by_rate. Nothing if no runs fit.
[[nodiscard]] std::optional<std::vector<std::int64_t>> fastest_runs(
    const Budget& budget, const std::vector<model::DeviceIndex>& order, std::int64_t samples);

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
