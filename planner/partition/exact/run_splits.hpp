#pragma once

// Non-uniform layers (Transformer::has_uniform_layers) in consecutive runs over consecutive stages:
// the time and memory of a run depend on where it begins.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/base/range.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::planner {

// A stage: a device or a group of devices.
struct RunStage {
  double fixed_s = 0.0;              // whatever its layers
  std::vector<double> layer_s{};     // by layer
  std::vector<std::int32_t> ends{};  // by first layer of a run: the end of the longest that fits
};

// Returns RunStage::ends for `layers` layers. `fits` returns whether the stage can hold a run; it
// must then hold any part of it.
[[nodiscard]] std::vector<std::int32_t> run_ends(std::int64_t layers,
                                                 const std::function<bool(model::Range)>& fits);

// Returns the length of the longest run.
[[nodiscard]] std::int64_t longest_run(const std::vector<std::int32_t>& ends);

struct RunProblem {
  std::vector<RunStage> stages{};  // in order
  double messages_s = 0.0;         // of all messages between them
  double channel_s = 0.0;          // the largest occupancy of a channel by them
  std::int64_t samples = 1;        // M, in circulation
};

// Returns the number of layers of each stage, at least one, that minimises the period
//   T = max( R, M B ) / M, R = sum of all times, B = the largest of a stage or channel
// (model/predict/pipeline_law.hpp); among those R; and among those (1e-9) the load of the busiest
// stage. Exact: dynamic programming over stages and ends, and bisection of B to the last bits.
// Nothing if no runs fit.
[[nodiscard]] std::optional<std::vector<std::int64_t>> fastest_runs(const RunProblem& problem);

// Returns, by layer, the first layer with equal weight formats, window and rotation.
[[nodiscard]] std::vector<std::int32_t> first_equal_layers(const model::Transformer& transformer);

// Returns `transformer` with so many layers, all equal to that one.
[[nodiscard]] model::Transformer uniform_model(const model::Transformer& transformer,
                                               std::int32_t layer, std::int64_t count);

}  // namespace tandem::planner
