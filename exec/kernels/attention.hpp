#pragma once

// Attention of query rows over one key/value head's cache, without a matrix of scores: softmax is
// accumulated online over blocks of positions (Milakov & Gimelshein 2018; Dao et al. 2022). With
// any type of cache results equal those for its numbers as F32, bit for bit. Single-threaded;
// allocates only the thread's kernel_scratch, whose tile it overwrites.

#include <cstddef>
#include <cstdint>

#include "model/transformer/cache_format.hpp"

namespace tandem::exec {

// The keys of a head are stored in panels of kPanel positions, so that both one query and many read
// them in vectors of positions without a sum across lanes; the values in rows. Both are cut into
// blocks of positions.
//            a panel of keys                                          a row of values
//   f32, f16 [head_dim][kPanel] numbers                               [head_dim] numbers
//   q8_0     [head_dim][kPanel] bytes, then [head_dim / 32][kPanel]   [head_dim / 32] blocks of a
//            scales                                                   scale and 32 bytes
inline constexpr std::int64_t kPanel = 16;  // equals model::kKeyPanel, used by memory prediction
inline constexpr std::int64_t kMaxHeadDim = 512;
// Positions whose scores are computed together, always within one block: sums have the same order
// whatever the blocks.
inline constexpr std::int64_t kBlockGranule = 64;

// Returns the numbers of the keys of `positions`.
[[nodiscard]] constexpr std::int64_t key_numbers(std::int64_t positions, std::int64_t head_dim) {
  return (positions + kPanel - 1) / kPanel * kPanel * head_dim;
}

// Returns the numbers of a block of `positions`: their keys, then their values.
[[nodiscard]] constexpr std::int64_t block_numbers(std::int64_t positions, std::int64_t head_dim) {
  return key_numbers(positions, head_dim) + positions * head_dim;
}

// Returns the bytes of the keys of `positions`, and of a block of so many with its values.
[[nodiscard]] constexpr std::int64_t key_bytes(model::CacheFormat format, std::int64_t positions,
                                               std::int64_t head_dim) {
  return model::cache_bytes(format, key_numbers(positions, head_dim));
}
[[nodiscard]] constexpr std::int64_t block_bytes(model::CacheFormat format, std::int64_t positions,
                                                 std::int64_t head_dim) {
  return model::cache_bytes(format, block_numbers(positions, head_dim));
}

// What the stored numbers of a head in F16 are multiplied by: powers of two, above 1 only once a
// key or value was beyond 65504 (cached_row.hpp).
struct HeadScales {
  float key = 1.0F;
  float value = 1.0F;
};

// Keys and values of one sequence and key/value head, in blocks: positions [i block_positions,
// (i + 1) block_positions) are in block blocks[i] of `memory`. A contiguous cache is one block.
struct CachedHead {
  // Blocks of block_bytes(format, block_positions, head_dim), one after another.
  std::byte* memory = nullptr;
  const std::int32_t* blocks = nullptr;
  std::int64_t block_positions = 0;  // a multiple of kBlockGranule
  model::CacheFormat format = model::CacheFormat::f32;
  HeadScales* scales = nullptr;  // of all sequences' blocks of the head; null: 1, for good
  std::int64_t head_blocks = 0;  // with scales: how many blocks these are

  // Returns the panel of keys with `position`; the block's next panels follow it.
  template <class Number>
  [[nodiscard]] Number* panel(std::int64_t position, std::int64_t head_dim) const {
    return reinterpret_cast<Number*>(
        block(position, head_dim) +
        key_bytes(format, position % block_positions / kPanel * kPanel, head_dim));
  }
  // Returns the value of `position`; those of the block's next positions follow it.
  template <class Number>
  [[nodiscard]] Number* value(std::int64_t position, std::int64_t head_dim) const {
    return reinterpret_cast<Number*>(
        block(position, head_dim) + key_bytes(format, block_positions, head_dim) +
        model::cache_bytes(format, position % block_positions * head_dim));
  }

 private:
  // Its panels of keys come first.
  [[nodiscard]] std::byte* block(std::int64_t position, std::int64_t head_dim) const {
    return memory +
           blocks[position / block_positions] * block_bytes(format, block_positions, head_dim);
  }
};

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
  std::int64_t window = 0;  // number of last keys, up to its own, that a row sees; 0: all
  float scale = 0.0F;       // of scores; 0: 1 / sqrt(head_dim)
  float cap = 0.0F;         // of scaled scores: cap tanh(score / cap); 0: none
  // Output: for each row and head the largest score and the sum of exp(score - largest): [rows,
  // group, 2], rows softmax_stride apart; -infinity and 0 where a row sees no key. Null: not
  // computed.
  float* softmax = nullptr;
  std::int64_t softmax_stride = 0;
};

// output = softmax(cap(query . keys * scale)) values; zero where a row sees no key.
void attend(const Attention& a);

// sums[(k - first_key) * stride] += sum over rows and heads of
//   exp(cap(query . key k * scale) - largest) / denominator
// over the rows that see key k: the attention it receives. `softmax` is input: the largest score
// and the denominator of each row and head, over any keys. Rows and heads with denominator 0
// contribute nothing; `output` is not used.
void weigh_keys(const Attention& a, float* sums, std::int64_t stride);

// The result of attention over some keys for one row: `heads` results of head_dim, and their
// softmax.
struct AttendedPart {
  float* output = nullptr;   // [heads, head_dim]
  float* softmax = nullptr;  // [heads, 2]
};
// into = attention over the disjoint keys of both (CSPS, equation 5):
//   M = max(m_a, m_b)    w_i = s_i exp(m_i - M)    output = (w_a y_a + w_b y_b) / (w_a + w_b)
//   softmax = M, w_a + w_b
// m, s, y: largest score, denominator and result of each. A part without keys (s = 0) is ignored:
// the other's bits are unchanged.
void merge(const AttendedPart& from, const AttendedPart& into, std::int64_t heads,
           std::int64_t head_dim);

}  // namespace tandem::exec
