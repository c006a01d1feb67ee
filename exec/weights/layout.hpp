#pragma once

// Where each tensor of a share lies in a shard's storage, and which part of which tensor of the
// Hugging Face folder it is.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/memory.hpp"
#include "model/task_graph.hpp"
#include "model/transformer.hpp"

namespace tandem::exec {

inline constexpr std::uint64_t kBlockAlignment = 4096;

// A rectangle of one stored tensor, f32 and packed in the storage.
struct TensorPart {
  std::string tensor;               // Hugging Face name
  std::vector<std::int64_t> shape;  // of the whole tensor: [n] or [rows, columns]
  model::Range rows;                // {0, 1} of a vector
  model::Range columns;
  std::uint64_t offset = 0;  // bytes, in the block; a multiple of 64 at the start of each matrix

  [[nodiscard]] std::uint64_t elements() const {
    return static_cast<std::uint64_t>(rows.size()) * static_cast<std::uint64_t>(columns.size());
  }
};

// Parts follow each other in the order of their offsets. attention: norm, q, k, v, out;
// ffn: norm, gate, up, down; embedding: the matrix; head: norm, the matrix unless tied.
struct LayoutBlock {
  model::WeightBlock kind = model::WeightBlock::none;
  std::int32_t layer = -1;
  std::uint64_t offset = 0;  // bytes, in the storage; a multiple of kBlockAlignment
  std::uint64_t bytes = 0;   // without the padding at its end
  std::vector<TensorPart> parts;
};

struct ShardLayout {
  std::vector<LayoutBlock> blocks;  // embedding, layers in order (attention, ffn), head
  std::uint64_t bytes = 0;          // of the storage; a multiple of kBlockAlignment
};

// Throws Error (value, expected, remedy) unless `share` lies within `transformer`, it is a valid
// Llama.
[[nodiscard]] ShardLayout layout_of(const model::Transformer& transformer,
                                    const model::Share& share);

}  // namespace tandem::exec
