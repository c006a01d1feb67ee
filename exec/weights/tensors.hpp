#pragma once

// The weights of a device as kernels read them: matrices, [out, in] row-major as in Hugging Face's
// files and in their formats, norms and biases f32. Each weight block is contiguous and
// 4096-aligned (on huge pages if the kernel provides them), or its matrices are in a mapped file.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/weights/files/aligned_buffer.hpp"
#include "exec/weights/mapped_weights.hpp"
#include "exec/weights/shard.hpp"

namespace tandem::exec {

struct MatrixView {  // [rows, columns], row-major, contiguous
  const std::byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  model::WeightFormat format = model::WeightFormat::f32;
  bool in_pairs = false;  // row 2 i + s of each head is its row i + s head_dim / 2
  [[nodiscard]] std::int64_t row_bytes() const { return model::row_bytes(format, columns); }
  [[nodiscard]] const std::byte* row(std::int64_t index) const {
    return data + index * row_bytes();
  }
};

struct NormView {
  std::span<const float> weight;  // [hidden]
  std::span<const float> bias;    // [hidden]; empty of an RMSNorm
};

// A bias is empty if the architecture has none; out_bias and down_bias are added to sums over all
// heads and columns, and only the device with the first of them has them. H = share.heads.size(), K
// = kv heads of those heads, d = head_dim, C = share.columns.size().
struct LayerTensors {
  NormView attention_norm;
  MatrixView query;                   // [H d, hidden]
  MatrixView key;                     // [K d, hidden]
  MatrixView value;                   // the same
  MatrixView out;                     // [hidden, H d]
  std::span<const float> qkv_bias;    // [(H + 2 K) d]
  std::span<const float> out_bias;    // [hidden]
  std::span<const float> query_norm;  // [d], of each head; empty where heads are not normalised
  std::span<const float> key_norm;    // the same
  NormView attention_sum_norm;        // of the sum of attention; empty without
  NormView ffn_norm;
  MatrixView gate;                   // [C, hidden]; empty ungated
  MatrixView up;                     // [C, hidden]
  MatrixView down;                   // [hidden, C]
  std::span<const float> up_bias;    // as many as gate and up have rows, gate's first
  std::span<const float> down_bias;  // [hidden]
  NormView ffn_sum_norm;
  // The blocks in memory; empty for a block that is not contiguous.
  std::span<const std::byte> attention_block;
  std::span<const std::byte> ffn_block;
};

// Sets `layer` to the tensors of `block`, of attention or the FFN, at `bytes`.
void bind_layer(LayerTensors& layer, const LayoutBlock& block, const std::byte* bytes);

struct Shard::Tensors {
  model::Transformer transformer;
  model::Share share;
  std::vector<std::shared_ptr<const AlignedBuffer>> storage;  // of the blocks that are in memory
  std::shared_ptr<const MappedWeights> mapped;  // the files of mapped matrices; may be null
  double mapped_bytes = 0.0;                    // of these matrices
  bool may_copy = false;                        // may be copied to memory later
  std::vector<LayerTensors> layers;             // by share.layers.place(layer)
  MatrixView embedding;                         // [vocab, hidden]; empty without share.embedding
  MatrixView positions;         // [rows, hidden]; empty also where positions are not learned
  MatrixView token_types;       // [types, hidden]; empty also where there are none
  NormView final_norm;          // empty without share.head
  MatrixView head;              // [vocab, hidden]; the embedding if tied; or a tile of rows
  std::int64_t head_begin = 0;  // of the vocabulary: the first row of `head`
};

}  // namespace tandem::exec
