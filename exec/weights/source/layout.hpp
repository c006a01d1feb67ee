#pragma once

// Where each tensor of a share lies in a shard's storage, and which slice of which tensor of the
// Hugging Face folder it is.

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
  bool less_one = false;            // a folder stores w where 1 + w is meant
  model::Range rows;                // {0, 1} of a vector
  model::Range columns;
  model::WeightFormat format = model::WeightFormat::f32;
  std::int32_t first = 0;    // where the weight begins in a tensor that fuses several
  std::uint64_t offset = 0;  // bytes, in the block; a multiple of 64 at the start of each matrix

  [[nodiscard]] std::uint64_t elements() const {
    return static_cast<std::uint64_t>(rows.size()) * static_cast<std::uint64_t>(columns.size());
  }
  // In the storage.
  [[nodiscard]] std::uint64_t row_bytes() const {
    return static_cast<std::uint64_t>(model::row_bytes(format, columns.size()));
  }
  [[nodiscard]] std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(rows.size()) * row_bytes();
  }
};

// Slices follow each other in the order of their offsets. attention: norm, q, k, v, out, biases,
// norms of heads and of the sum; ffn: norm, gate, up, down, biases, norm of the sum; embedding:
// positions and token types, the matrix; head: norm, the matrix unless tied. Norms have one vector
// or two; what an architecture lacks is left out.
struct LayoutBlock {
  model::WeightBlock kind = model::WeightBlock::none;
  std::int32_t layer = -1;
  std::uint64_t offset = 0;  // bytes, in the storage; a multiple of kBlockAlignment
  std::uint64_t bytes = 0;   // without the padding at its end
  std::vector<TensorSlice> slices;

  // The slice of `weight`; null: the block has none.
  [[nodiscard]] const TensorSlice* find(WeightName weight) const;
  // Bytes before the block's matrix of rows of the vocabulary (embedding, head), which can be
  // elsewhere than the rest: its last slice. All of them if there is none.
  [[nodiscard]] std::uint64_t bytes_before_rows() const;
};

struct ShardLayout {
  std::vector<LayoutBlock> blocks;  // embedding, layers in order (attention, ffn), head
  std::uint64_t bytes = 0;          // of the storage; a multiple of kBlockAlignment
};

// Which of the matrices that have formats `weight` belongs to; nothing: it is f32.
[[nodiscard]] std::optional<model::WeightMatrix> weight_matrix(WeightName weight);

// Throws Error (value, expected, remedy) unless `share` lies within `transformer`, it is valid and
// of a family that can be executed, and the columns are whole blocks of the weights' format.
[[nodiscard]] ShardLayout layout_of(const model::Transformer& transformer,
                                    const model::Share& share);

}  // namespace tandem::exec
