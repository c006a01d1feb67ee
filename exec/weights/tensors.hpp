#pragma once

// What the kernels read: a device's weights as f32 matrices, [out, in] row-major as Hugging Face
// stores them, each weight block contiguous and 4096-aligned (huge pages where the kernel gives
// them).

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/weights/aligned_buffer.hpp"
#include "exec/weights/shard.hpp"

namespace tandem::exec {

struct MatrixView {  // [rows, columns], row-major, contiguous
  const float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

// H = share.heads.size(), K = kv heads of those heads, d = head_dim, C = share.columns.size().
struct LayerTensors {
  std::span<const float> attention_norm;  // [hidden]
  MatrixView qkv;                         // [(H + 2 K) d, hidden]: query rows, key rows, value rows
  MatrixView out;                         // [hidden, H d]
  std::span<const float> ffn_norm;        // [hidden]
  MatrixView gate_up;                     // [2 C, hidden]: gate rows, then up rows
  MatrixView down;                        // [hidden, C]
};

struct Shard::Tensors {
  model::Transformer transformer;
  model::Share share;
  AlignedBuffer storage;
  std::vector<LayerTensors> layers;   // by layer - share.layers.begin
  MatrixView embedding;               // [vocab, hidden]; empty without share.embedding
  std::span<const float> final_norm;  // [hidden]; empty without share.head
  MatrixView head;                    // [vocab, hidden]; the embedding if tied; or a tile of rows
  std::int64_t head_begin = 0;        // of the vocabulary: the first row of `head`
};

}  // namespace tandem::exec
