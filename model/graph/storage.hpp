#pragma once

// The storage that a graph declares for a device: named buffers with extents, element format and
// lifetime. Memory prediction, the executor's allocation and conflict detection all use these
// declarations.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/transformer/cache_format.hpp"
#include "model/transformer/layer_runs.hpp"

namespace tandem::model {

// A device's named storage, row-major. Rows are those of the batch unless stated otherwise.
enum class BufferKind : std::uint8_t {
  none,
  hidden,      // [rows, hidden]              residual stream
  normed,      // [rows, hidden]
  query,       // [rows, heads * head_dim]    this device's heads
  key_value,   // [positions, kv_heads, 2, head_dim] of task.layer     the cache
  attention,   // [rows, heads * head_dim]    this device's heads
  activation,  // [rows, ffn columns]         this device's columns
  partial,     // [rows, hidden]              partial sum to be reduced
  receive,     // [rows, hidden]              one for each slot
  logits,      // [rows with logits, vocab columns]
  // Scratch that tasks use in addition to their operands; no task names these.
  tokens,  // [rows]                      token ids
  gated,   // [rows, ffn columns]         second operand of a gated FFN
  angles,  // [rows, angle_floats]        cosines and sines of rotary positions
  // [rows, heads, 2], this device's heads: for the scores behind `attention` of the same slot, the
  // maximum and the denominator, the sum of exp(score - maximum); -infinity and 0 without scores
  softmax,
  // [positions, kv_heads, 2, head_dim] of one layer: keys and values received from other devices'
  // caches, kept while that layer is attended
  remote_kv,
  // [rows with logits, devices with rows of the LM head * candidate_columns]: each device's best
  // logits of the row and their softmax (model/graph/candidates.hpp)
  candidates,
  // Sparse attention. A *list* names rows by key/value head: each column holds row numbers of the
  // batch, ascending. Data gathered by a list has one row for each entry.
  selection,  // [rows, kv_heads]                a list, by slot
  gathered,   // [rows, kv_heads, 2, head_dim]   keys and values of such rows, by slot
  scores,     // [rows, kv_heads]                the attention that rows received, by slot
  packed_kv,  // [positions, 2, head_dim]        scratch: `gathered` of one head as kernels read it
  // [1, bytes], by slot from 1: a block of another device's share of a layer's weights, as stored
  // there, kept while rows of this device are multiplied by it
  gathered_weights,
};
[[nodiscard]] std::string_view to_string(BufferKind buffer);

// Returns whether the buffer's rows are the sampled rows of the batch, not all rows.
[[nodiscard]] constexpr bool of_sampled_rows(BufferKind buffer) {
  return buffer == BufferKind::logits || buffer == BufferKind::candidates;
}

// Returns whether the buffer counts as memory of messages.
[[nodiscard]] constexpr bool holds_messages(BufferKind buffer) {
  return buffer == BufferKind::receive || buffer == BufferKind::gathered_weights;
}

struct BufferRef {
  BufferKind kind = BufferKind::none;
  std::int16_t slot = 0;  // of buffers that exist more than once (receive, query, attention, ...)
  friend constexpr bool operator==(BufferRef, BufferRef) = default;
};

// cached: keys and values in the type of the cache.
enum class ElementFormat : std::uint8_t { f32, i32, bytes, cached };

// How long values are kept: until the step's last task, or until their sequence is freed.
enum class Lifetime : std::uint8_t { step, sequence };

// The unit of a buffer's rows.
enum class RowCount : std::uint8_t {
  rows,       // of the batch
  positions,  // of all sequences, each rounded up to whole blocks
  sequences,  // of the batch
  sampled,    // rows of the batch that are sampled from
  one,        // a single row, whatever the batch
};

// Key caches are stored in panels of this many positions (exec/kernels/attention.hpp), and both
// keys and values in blocks of whole panels: a sequence occupies whole blocks on every device
// (model/graph/block_table.hpp).
inline constexpr std::int64_t kKeyPanel = 16;
inline constexpr std::int64_t kCacheBlock = 64;
static_assert(kCacheBlock % kKeyPanel == 0);

// Returns the number of blocks for the first `positions` of a sequence: 2 for 65 to 128.
[[nodiscard]] constexpr std::int64_t cache_blocks(std::int64_t positions) {
  return (positions + kCacheBlock - 1) / kCacheBlock;
}

// Upper limits of what exists at once.
struct Extents {
  std::int64_t rows = 0;       // tokens of one step
  std::int64_t positions = 0;  // in the key/value caches of all sequences
  std::int64_t sequences = 0;
  std::int64_t sampled = 0;  // rows of one step
  std::int64_t steps = 1;    // in flight; each has message slots of its own
  std::int64_t graphs =
      2;  // of steps of different structures that are kept: of a prompt and a token
  [[nodiscard]] std::int64_t of(RowCount count) const;
  bool operator==(const Extents&) const = default;
};

// One buffer of a device, or one in each of `layers`.
struct BufferDeclaration {
  BufferRef name{};
  RowCount rows = RowCount::rows;
  std::int64_t columns = 0;
  LayerRuns layers{0, 1};
  ElementFormat format = ElementFormat::f32;
  CacheFormat cache = CacheFormat::f32;  // of `cached`
  Lifetime lifetime = Lifetime::step;
  // Of a cache spread over devices: the most blocks that this device holds; 0: enough for all
  // positions.
  std::int16_t blocks = 0;
  // The number of the first column: of logits, a token of the vocabulary; of candidates, a column
  // among those of all devices.
  std::int32_t first = 0;
  // Returns the number of elements in one layer.
  [[nodiscard]] std::int64_t elements(const Extents& extents) const;
  // Returns the bytes of so many elements.
  [[nodiscard]] std::int64_t bytes_of(std::int64_t elements) const;
  // Returns the bytes in all layers, including the alignment of buffers to cache lines of 64 bytes.
  [[nodiscard]] std::int64_t bytes(const Extents& extents) const;
  bool operator==(const BufferDeclaration&) const = default;
};
inline constexpr std::int64_t kBufferAlignment = 64;

// Returns the declaration of `name`; null if there is none.
[[nodiscard]] const BufferDeclaration* find_buffer(std::span<const BufferDeclaration> buffers,
                                                   BufferRef name);

}  // namespace tandem::model
