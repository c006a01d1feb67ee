#pragma once

// The layout of a share in a shard's storage: the place of each tensor, and the slice of a tensor
// of the Hugging Face folder that it holds.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/weights/source/tensor_names.hpp"
#include "model/graph/memory.hpp"
#include "model/graph/task_graph.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

inline constexpr std::uint64_t kBlockAlignment = 4096;

// A rectangle of one tensor, [out, in], packed in the storage in its format: rows of whole blocks.
struct TensorSlice {
  WeightName weight = WeightName::embedding;
  std::string tensor;               // Hugging Face name
  std::vector<std::int64_t> shape;  // of the whole tensor as it is stored: [n] or [rows, columns]
  bool transposed = false;          // stored as [in, out]: its columns are the slice's rows
  bool less_one = false;            // the folder stores w for 1 + w
  model::Range rows;                // {0, 1} of a vector
  model::Range columns;
  model::WeightFormat format = model::WeightFormat::f32;
  std::int32_t first = 0;    // first row of the weight in a fused tensor
  std::uint64_t offset = 0;  // bytes, in the block; a multiple of 64 at the start of each matrix

  [[nodiscard]] std::uint64_t elements() const {
    return static_cast<std::uint64_t>(rows.size()) * static_cast<std::uint64_t>(columns.size());
  }
  // Returns the bytes of a row in the storage.
  [[nodiscard]] std::uint64_t row_bytes() const {
    return static_cast<std::uint64_t>(model::row_bytes(format, columns.size()));
  }
  [[nodiscard]] std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(rows.size()) * row_bytes();
  }
};

// Slices are in the order of their offsets. attention: norm, q, k, v, out, biases, norms of heads
// and of the sum; ffn: norm, gate, up, down, biases, norm of the sum; embedding: positions and
// token types, the matrix; head: norm, the matrix unless tied. Norms have one vector or two; absent
// weights are omitted.
struct LayoutBlock {
  model::WeightBlock kind = model::WeightBlock::none;
  std::int32_t layer = -1;
  std::uint64_t offset = 0;  // bytes, in the storage; a multiple of kBlockAlignment
  std::uint64_t bytes = 0;   // without the padding at its end
  std::vector<TensorSlice> slices;

  // Returns the slice of `weight`; null: the block has none.
  [[nodiscard]] const TensorSlice* find(WeightName weight) const;
  // Returns the bytes before the block's matrix of rows of the vocabulary (embedding, head), its
  // last slice, which can be stored elsewhere. All bytes if there is none.
  [[nodiscard]] std::uint64_t bytes_before_rows() const;
};

struct ShardLayout {
  std::vector<LayoutBlock> blocks;  // embedding, layers in order (attention, ffn), head
  std::uint64_t bytes = 0;          // of the storage; a multiple of kBlockAlignment
};

// Returns the matrix, in terms of formats, that `weight` belongs to; nothing: it is f32.
[[nodiscard]] std::optional<model::WeightMatrix> weight_matrix(WeightName weight);

// Throws Error (value, expected, remedy) unless `share` is within `transformer`, that is valid and
// of an executable family, and the columns are whole blocks of the weights' format.
[[nodiscard]] ShardLayout layout_of(const model::Transformer& transformer,
                                    const model::Share& share);

}  // namespace tandem::exec
