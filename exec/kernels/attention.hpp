#pragma once

// Attention of query rows over one key/value head's cache, without a matrix of scores:
// softmax is accumulated online over blocks of positions (Milakov & Gimelshein 2018; Dao et al.
// 2022). Single-threaded; no allocation.

#include <cstdint>

namespace tandem::exec {

// The keys of a head are stored in panels of kPanel positions, [positions / kPanel][head_dim]
// [kPanel], so that both one query and many read them in vectors of positions without a sum
// across lanes. The values are stored plainly, [positions][head_dim].
inline constexpr std::int64_t kPanel = 16;  // model::kKeyPanel, which memory prediction knows
inline constexpr std::int64_t kMaxHeadDim = 512;

// Floats that the keys of `positions` take.
[[nodiscard]] constexpr std::int64_t key_floats(std::int64_t positions, std::int64_t head_dim) {
  return (positions + kPanel - 1) / kPanel * kPanel * head_dim;
}

// Stores the key of one position.
inline void store_key(const float* key, std::int64_t position, std::int64_t head_dim,
                      float* panels) {
  float* to = panels + position / kPanel * kPanel * head_dim + position % kPanel;
  for (std::int64_t i = 0; i < head_dim; ++i) to[i * kPanel] = key[i];
}

// Rows of queries of the `group` heads that share one key/value head.
struct Attention {
  const float* queries = nullptr;  // [rows, group, head_dim], rows query_stride apart
  std::int64_t query_stride = 0;
  const float* keys = nullptr;    // panels
  const float* values = nullptr;  // [positions, head_dim]
  float* output = nullptr;        // [rows, group, head_dim], rows output_stride apart
  std::int64_t output_stride = 0;
  std::int64_t rows = 0;
  std::int64_t group = 0;
  std::int64_t head_dim = 0;   // at most kMaxHeadDim
  std::int64_t first_key = 0;  // keys [first_key, min(end_key, past + row + 1)) are seen by `row`
  std::int64_t end_key = 0;
  std::int64_t past = 0;  // with a full mask: past all keys
};

// output = softmax(query . keys / sqrt(head_dim)) values; zero where a row sees no key.
void attend(const Attention& a);

}  // namespace tandem::exec
