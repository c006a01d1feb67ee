#pragma once

// What weights and keys and values need at least, whatever the plan.

#include <vector>

#include "model/graph/storage.hpp"
#include "model/transformer/transformer.hpp"
#include "planner/search/request.hpp"

namespace tandem::study {

// Returns the share of a device that has all weights.
[[nodiscard]] model::Share everything(const model::Transformer& transformer);

// Returns the bytes of all weights of the layers.
[[nodiscard]] double layer_bytes(const model::Transformer& transformer);

// Returns the bytes of all keys and values of the request.
[[nodiscard]] double cache_bytes(const planner::Request& request);

// Returns a lower bound on the memory that `devices` of a cluster need together, whatever the
// strategy, if no weights stream: every weight, and every key and value of `workload`, is somewhere
// at least once.
//   W + ceil(positions / 64) B + sum of the program's memory
//   W: bytes of all weights   B: bytes of one cache block of all layers
[[nodiscard]] double least_bytes(const planner::Request& request, const std::vector<bool>& devices);

// Returns whether the devices' memory may hold the request with all its weights; false only if no
// plan of its strategy can. Costs no search.
[[nodiscard]] bool may_be_resident(const planner::Request& request);

}  // namespace tandem::study
