#include "model/memory.hpp"

#include "model/error.hpp"
#include "model/work.hpp"

namespace tandem::model {

// Symbols: L layers, H heads, K key/value heads, C FFN columns of the share; h hidden size, d head
// dimension, V vocabulary; e = 4 bytes.

//   2 e L K d kCacheBlock
std::int64_t cache_block_bytes(const Transformer& t, const Share& share) {
  return 2 * static_cast<std::int64_t>(kElementBytes) * share.layers.size() *
         t.kv_heads_for(share.heads).size() * t.head_dim * kCacheBlock;
}

//   e (L (attention(H) + ffn(C)) + embedding + head)
// where a tied matrix is held once, also by a device that has the head only.
double weight_bytes(const Transformer& t, const Share& share) {
  std::int64_t elements =
      share.layers.size() * (t.attention_parameters(share.heads) + t.ffn_parameters(share.columns));
  if (share.embedding) elements += t.embedding_parameters();
  if (share.head) {
    elements += t.head_parameters();
    if (t.tied_embeddings && !share.embedding) elements += t.head_rows() * t.hidden;
  }
  return kElementBytes * static_cast<double>(elements);
}

//   kv_cache     2 e L K d (positions rounded up to whole blocks)
//   activations  e rows (3 h        hidden, normed, partial
//                      + 2 H d      query, attention
//                      + m C)       gate and up side by side (m = 2), or up alone (m = 1)
//              + e sampled V        logits, with an LM head only
//              + e rows d           cosines and sines of the rows' positions, if they are rotary
//   buffers      e row_buffers rows h
// The executor allocates these, each of the activations and buffers aligned to 64 bytes.
MemoryUse memory_use(const Transformer& t, const Share& share, std::int64_t rows,
                     std::int64_t positions, std::int64_t row_buffers, double program,
                     std::int64_t sampled) {
  require(rows >= 0 && positions >= 0 && row_buffers >= 0 && sampled >= 0,
          "memory_use: negative count");
  const auto n = [](std::int64_t value) { return static_cast<double>(value); };
  const double h = n(t.hidden);
  const double d = n(t.head_dim);
  const double heads = share.heads.size();
  const double up = n(t.ffn_matrices() - 1) * share.columns.size();
  const double angles = t.architecture().learned() ? 0.0 : d;

  MemoryUse use;
  use.weights = weight_bytes(t, share);
  use.kv_cache = n(cache_blocks(positions)) * n(cache_block_bytes(t, share));
  use.activations = kElementBytes * (n(rows) * (3.0 * h + 2.0 * heads * d + up + angles) +
                                     (share.head ? n(sampled * t.head_rows()) : 0.0));
  use.buffers = kElementBytes * n(row_buffers) * n(rows) * h;
  use.program = program;
  return use;
}

}  // namespace tandem::model
