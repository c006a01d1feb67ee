#pragma once

// Shards that come from no file: what a profile measures on, and what tests compare with.

#include <cstdint>
#include <functional>
#include <optional>

#include "exec/weights/shard.hpp"
#include "exec/weights/source/tensor_names.hpp"
#include "model/graph/memory.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// One element of the whole model, [out, in]; norms and biases have column 0 only.
struct WeightElement {
  WeightName name = WeightName::embedding;
  std::int32_t layer = -1;
  std::int64_t row = 0;
  std::int64_t column = 0;
};

// The shard of `share` whose elements are what `value` says, rounded to the weights' formats. A
// tied head is the embedding, and shares its storage if the device has both. With `period`, a
// positive number of rows after which the values of a matrix repeat themselves, only so many rows
// are encoded; the others are copies.
[[nodiscard]] Shard synthetic_shard(const model::Transformer& transformer,
                                    const model::Share& share,
                                    const std::function<float(const WeightElement&)>& value,
                                    std::optional<std::int32_t> period = std::nullopt);

}  // namespace tandem::exec
