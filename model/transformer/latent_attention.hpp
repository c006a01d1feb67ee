#pragma once

// Multi-head latent attention: the geometry of attention whose keys and values are one compressed
// row for all heads.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::model {

// DeepSeek-AI 2024 (DeepSeek-V2, section 2.1). The cache keeps, per token and layer, `rank` numbers
// from which all heads' keys and values are computed, and `rotated` numbers of a rotated key that
// the heads share. Costs are those of the absorbed form, as llama.cpp computes it for prompts and
// tokens: queries are multiplied by the heads' key matrices, attention is over the latent rows, and
// its result is multiplied by the heads' value matrices.
// Sparse attention (DeepSeek-V3.2) has an indexer: `index_heads` heads of `index_dims` numbers
// score all keys, and attention is over the `index_keys` keys with the highest scores.
struct LatentAttention {
  std::int64_t query_rank = 0;   // of the compressed queries; 0: queries are not compressed
  std::int64_t rank = 0;         // latent numbers a token and layer
  std::int64_t plain = 0;        // numbers of a head's query that are not rotated
  std::int64_t rotated = 0;      // numbers of a head's query that are
  std::int64_t value = 0;        // numbers of a head's value
  std::int64_t index_heads = 0;  // 0: no indexer
  std::int64_t index_dims = 0;
  std::int64_t index_keys = 0;
  std::vector<bool> borrowed_index{};  // by layer, those that use an earlier layer's index; empty:
                                       // none

  // Returns the numbers that the cache keeps of a token and layer: the latent row, the rotated key,
  // and the indexer's key. A layer that borrows an index is counted as one that has its own.
  [[nodiscard]] std::int64_t cached() const { return rank + rotated + index_dims; }
  // Returns whether `layer` has an indexer.
  [[nodiscard]] bool indexes(std::int32_t layer) const {
    return index_heads > 0 &&
           (layer < 0 || static_cast<std::size_t>(layer) >= borrowed_index.size() ||
            !borrowed_index[static_cast<std::size_t>(layer)]);
  }

  bool operator==(const LatentAttention&) const = default;
};

}  // namespace tandem::model
