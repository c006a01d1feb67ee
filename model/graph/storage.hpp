#pragma once

// What a device must have room for, as a graph declares it: named buffers with their extents,
// element format and lifetime. Predicted memory, what the executor allocates and what conflicts are
// all read from these declarations.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/transformer/layer_runs.hpp"

namespace tandem::model {

// A device's named storage, row-major. Rows are those of the batch unless said.
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
  // What tasks use beside their operands; no task names these.
  tokens,  // [rows]                      token ids
  gated,   // [rows, ffn columns]         second operand of a gated FFN
  angles,  // [rows, angle_floats]        cosines and sines of rotary positions
  // [rows, heads, 2], this device's heads: of the scores that made `attention` of the same slot,
  // the largest, and the sum of exp(score - largest), the denominator; -infinity and 0 of none
  softmax,
  // [positions, kv_heads, 2, head_dim] of one layer: what came from caches elsewhere, for as long
  // as that layer is attended
  remote_kv,
  // [rows with logits, devices with rows of the LM head * candidate_columns]: of each device's
  // logits of the row the best, and their softmax (model/graph/candidates.hpp)
  candidates,
  // Of sparse attention. A *list* names rows by key/value head: in each column some rows of the
  // batch, ascending. What is gathered by a list has a row for each of the list's.
  selection,  // [rows, kv_heads]                a list, by slot
  gathered,   // [rows, kv_heads, 2, head_dim]   keys and values of such rows, by slot
  scores,     // [rows, kv_heads]                how much rows were attended to, by slot
  packed_kv,  // [positions, 2, head_dim]        scratch: `gathered` of one head as kernels read it
  // [1, bytes], by slot from 1 on: a block of another device's share of a layer's weights, as it
  // lies there, for as long as rows of this device are multiplied by it
  gathered_weights,
};
[[nodiscard]] std::string_view to_string(BufferKind buffer);

// Whether the buffer's rows are those of the batch that are sampled from, not all.
[[nodiscard]] constexpr bool of_sampled_rows(BufferKind buffer) {
  return buffer == BufferKind::logits || buffer == BufferKind::candidates;
}

// Whether its memory counts as that of messages.
[[nodiscard]] constexpr bool holds_messages(BufferKind buffer) {
  return buffer == BufferKind::receive || buffer == BufferKind::gathered_weights;
}

struct BufferRef {
  BufferKind kind = BufferKind::none;
  std::int16_t slot = 0;  // of receive, query, attention and those beside it: which of several
  friend constexpr bool operator==(BufferRef, BufferRef) = default;
};

enum class ElementFormat : std::uint8_t { f32, i32, f16, bytes };
[[nodiscard]] std::int64_t element_bytes(ElementFormat format);

// How long values are kept: until the step's last task, or as long as their sequence.
enum class Lifetime : std::uint8_t { step, sequence };

// What the rows of a buffer are counted by.
enum class RowCount : std::uint8_t {
  rows,       // of the batch
  positions,  // of all sequences, each one's rounded up to whole blocks
  sequences,  // of the batch
  sampled,    // rows of the batch that are sampled from
  one,        // there is one, whatever the batch
};

// Positions of the key cache are kept in panels of this many (exec/kernels/attention.hpp), and
// both keys and values in blocks of whole panels: a sequence takes whole blocks of every device
// (model/graph/block_table.hpp).
inline constexpr std::int64_t kKeyPanel = 16;
inline constexpr std::int64_t kCacheBlock = 64;
static_assert(kCacheBlock % kKeyPanel == 0);

// How many blocks the first `positions` of a sequence take: 2 for 65 to 128.
[[nodiscard]] constexpr std::int64_t cache_blocks(std::int64_t positions) {
  return (positions + kCacheBlock - 1) / kCacheBlock;
}

// How much there is at once, at most.
struct Extents {
  std::int64_t rows = 0;       // tokens of one step
  std::int64_t positions = 0;  // in the key/value caches of all sequences
  std::int64_t sequences = 0;
  std::int64_t sampled = 0;  // rows of one step
  std::int64_t steps = 1;    // in flight: each has slots of its own for its messages
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
  Lifetime lifetime = Lifetime::step;
  // Of a cache whose positions are spread over devices: the most blocks that this device
  // has of it; 0: as many as all positions take.
  std::int16_t blocks = 0;
  // What the first column is called: of logits, a token of the vocabulary; of candidates, a column
  // of those of all devices.
  std::int32_t first = 0;
  // How many elements it has in one layer.
  [[nodiscard]] std::int64_t elements(const Extents& extents) const;
  // How many bytes it takes in all layers, with what aligns it: buffers begin at cache lines of 64
  // bytes.
  [[nodiscard]] std::int64_t bytes(const Extents& extents) const;
  bool operator==(const BufferDeclaration&) const = default;
};
inline constexpr std::int64_t kBufferAlignment = 64;

// The declaration of `name`; null if there is none.
[[nodiscard]] const BufferDeclaration* find_buffer(std::span<const BufferDeclaration> buffers,
                                                   BufferRef name);

}  // namespace tandem::model
