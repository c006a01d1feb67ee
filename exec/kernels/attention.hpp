#pragma once

// Attention of query rows over one key/value head's cache, without a matrix of scores:
// softmax is accumulated online over blocks of positions (Milakov & Gimelshein 2018; Dao et al.
// 2022). Single-threaded; no allocation.

#include <cstdint>

namespace tandem::exec {

// The keys of a head are stored in panels of kPanel positions, [positions / kPanel][head_dim]
// [kPanel], so that both one query and many read them in vectors of positions without a sum
// across lanes. The values are stored plainly, [positions][head_dim]. Both are cut into blocks.
inline constexpr std::int64_t kPanel = 16;  // model::kKeyPanel, which memory prediction knows
inline constexpr std::int64_t kMaxHeadDim = 512;
// Positions whose scores are taken together, which one block has: whatever the blocks, sums are
// made in the same order.
inline constexpr std::int64_t kBlockGranule = 64;

// Floats that the keys of `positions` take.
[[nodiscard]] constexpr std::int64_t key_floats(std::int64_t positions, std::int64_t head_dim) {
  return (positions + kPanel - 1) / kPanel * kPanel * head_dim;
}

// Floats of a block of `positions`: their keys, then their values.
[[nodiscard]] constexpr std::int64_t block_floats(std::int64_t positions, std::int64_t head_dim) {
  return key_floats(positions, head_dim) + positions * head_dim;
}

// Keys and values of one sequence and key/value head, in blocks: positions [i block_positions,
// (i + 1) block_positions) are in block blocks[i] of `memory`. A contiguous cache is one block.
struct CachedHead {
  float* memory = nullptr;  // blocks of block_floats(block_positions, head_dim), one after another
  const std::int32_t* blocks = nullptr;
  std::int64_t block_positions = 0;  // a multiple of kBlockGranule

  // The block that has `position`: its panels of keys come first.
  [[nodiscard]] float* block(std::int64_t position, std::int64_t head_dim) const {
    return memory + blocks[position / block_positions] * block_floats(block_positions, head_dim);
  }
  // The value of `position`; those of the block's next positions follow it.
  [[nodiscard]] float* value(std::int64_t position, std::int64_t head_dim) const {
    return block(position, head_dim) + key_floats(block_positions, head_dim) +
           position % block_positions * head_dim;
  }
};

// Stores the key of one position.
inline void store_key(const float* key, std::int64_t position, const CachedHead& cache,
                      std::int64_t head_dim) {
  const std::int64_t in_block = position % cache.block_positions;
  float* to =
      cache.block(position, head_dim) + in_block / kPanel * kPanel * head_dim + in_block % kPanel;
  for (std::int64_t i = 0; i < head_dim; ++i) to[i * kPanel] = key[i];
}

// The key of one position, as it was stored.
inline void load_key(const CachedHead& cache, std::int64_t position, std::int64_t head_dim,
                     float* key) {
  const std::int64_t in_block = position % cache.block_positions;
  const float* from =
      cache.block(position, head_dim) + in_block / kPanel * kPanel * head_dim + in_block % kPanel;
  for (std::int64_t i = 0; i < head_dim; ++i) key[i] = from[i * kPanel];
}

// Rows of queries of the `group` heads that share one key/value head.
struct Attention {
  const float* queries = nullptr;  // [rows, group, head_dim], rows query_stride apart
  std::int64_t query_stride = 0;
  CachedHead cache{};
  float* output = nullptr;  // [rows, group, head_dim], rows output_stride apart
  std::int64_t output_stride = 0;
  std::int64_t rows = 0;
  std::int64_t group = 0;
  std::int64_t head_dim = 0;   // at most kMaxHeadDim
  std::int64_t first_key = 0;  // keys [first_key, min(end_key, past + row + 1)) are seen by `row`
  std::int64_t end_key = 0;
  std::int64_t past = 0;    // with a full mask: past all keys
  std::int64_t window = 0;  // of these a row sees its last so many positions; 0: all
  float scale = 0.0F;       // of scores; 0: 1 / sqrt(head_dim)
  float cap = 0.0F;         // of scaled scores: cap tanh(score / cap); 0: none
};

// output = softmax(cap(query . keys * scale)) values; zero where a row sees no key.
void attend(const Attention& a);

}  // namespace tandem::exec
