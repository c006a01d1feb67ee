#pragma once

// Layers that are not alike (Transformer::has_uniform_layers), in runs over stages that follow one
// another: what a run takes, and the memory that it needs, depends on where it begins.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/base/range.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::planner {

// A device or a group of them.
struct RunStage {
  double fixed_s = 0.0;              // whatever its layers
  std::vector<double> layer_s{};     // by layer
  std::vector<std::int32_t> ends{};  // by where a run begins: where the longest that fits ends
};

// RunStage::ends of `layers` layers; `fits` says of a run whether the stage holds it, which then
// holds any part of it.
[[nodiscard]] std::vector<std::int32_t> run_ends(std::int64_t layers,
                                                 const std::function<bool(model::Range)>& fits);

// The layers of the longest.
[[nodiscard]] std::int64_t longest_run(const std::vector<std::int32_t>& ends);

struct RunProblem {
  std::vector<RunStage> stages{};  // as they follow one another
  double messages_s = 0.0;         // of all messages between them
  double channel_s = 0.0;          // the most that a channel is occupied by them
  std::int64_t samples = 1;        // M: that go round
};

// How many layers, one at least, each stage has where the period is least,
//   T = max( R, M B ) / M, R = sum of all, B = the most of a stage or a channel
// (model/predict/pipeline_law.hpp), of those where R is least, and of those (1e-9) where no stage
// has much to do. Exact: dynamic programming over stages and ends, and bisection of B to the last
// bits. Nothing if no runs fit.
[[nodiscard]] std::optional<std::vector<std::int64_t>> fastest_runs(const RunProblem& problem);

// By layer: the first one that it is like, in the formats of its weights, its window and rotation.
[[nodiscard]] std::vector<std::int32_t> first_equal_layers(const model::Transformer& transformer);

// `transformer` with so many layers, all like that one.
[[nodiscard]] model::Transformer uniform_model(const model::Transformer& transformer,
                                               std::int32_t layer, std::int64_t count);

}  // namespace tandem::planner
