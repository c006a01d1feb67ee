#include "model/graph/memory.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "model/base/error.hpp"
#include "model/graph/block_bytes.hpp"
#include "model/graph/channel_slots.hpp"
#include "model/graph/message_schedule.hpp"
#include "model/graph/work.hpp"

namespace tandem::model {

// Symbols: L layers, H heads, K key/value heads, C FFN columns of the share; h hidden size, d head
// dimension, V vocabulary; e = 4 bytes, of what is f32.

//   2 e L K d kCacheBlock, e: a number of the cache's type; latent attention has its row for 2 K d
std::int64_t cache_block_bytes(const Transformer& t, const Share& share) {
  return cache_bytes(t.cache, share.layers.size() * t.cached_numbers(share.heads) * kCacheBlock);
}

Range head_rows(const Transformer& t, const Share& share) {
  if (!share.head || t.head_rows() == 0) return {};
  return share.vocabulary.empty() ? Range{0, static_cast<std::int32_t>(t.vocab)} : share.vocabulary;
}

bool head_is_embedding(const Transformer& t, const Share& share) {
  return share.head && share.embedding && t.tied_embeddings && t.head_rows() > 0;
}

//   sum over L of (attention(H) + ffn(C)) + embedding + final norm + rows of the head, each in
//   bytes
// where rows of a tied matrix are held once, also by a device that has the head only.
double weight_bytes(const Transformer& t, const Share& share) {
  std::int64_t bytes = BlockBytes(t, share.layers, share.heads, share.columns).total();
  if (share.embedding) bytes += t.embedding_bytes();
  if (share.head) {
    bytes += t.final_norm_bytes();
    if (!head_is_embedding(t, share)) bytes += head_rows(t, share).size() * t.head_row_bytes();
  }
  return static_cast<double>(bytes);
}

namespace {

// Parts of a block in memory, one behind the other.
class BlockParts {
 public:
  void add(std::int64_t bytes) { bytes_ += bytes; }
  void align() { bytes_ = (bytes_ + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment; }
  // Elements of f32 that begin and end at a multiple of the alignment.
  void vector(std::int64_t elements) {
    align();
    add(row_bytes(WeightFormat::f32, elements));
    align();
  }
  // Adds rows that directly follow those of the same format.
  void rows(WeightFormat format, std::int64_t count, std::int64_t columns) {
    if (!last_ || *last_ != format) align();
    last_ = format;
    add(count * row_bytes(format, columns));
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
  std::optional<WeightFormat> last_{};
};

}  // namespace

// As laid out by exec/weights/source/layout.cpp; a test compares the two.
std::int64_t block_extent(const Transformer& t, WeightBlock block, std::int32_t layer,
                          Range columns) {
  require(!columns.empty() && (block == WeightBlock::attention || block == WeightBlock::ffn),
          "block_extent: some heads or columns of a layer");
  const Architecture& a = t.architecture();
  const bool attention = block == WeightBlock::attention;
  const auto format = [&](WeightMatrix matrix) { return t.format_of(matrix, layer); };
  BlockParts parts;
  for (int i = 0; i < a.norm_vectors(); ++i) parts.vector(t.hidden);
  if (attention) {
    const std::int64_t q = columns.size() * t.head_dim;
    const std::int64_t kv = t.kv_heads_for(columns).size() * t.head_dim;
    parts.rows(format(WeightMatrix::query), q, t.hidden);
    parts.rows(format(WeightMatrix::key), kv, t.hidden);
    parts.rows(format(WeightMatrix::value), kv, t.hidden);
    parts.align();
    parts.add(t.hidden *
              row_bytes(format(WeightMatrix::out), t.out_columns(layer, columns).size()));
    if (a.qkv_bias) {
      parts.align();
      parts.add(row_bytes(WeightFormat::f32, q + 2 * kv));
    }
    if (a.out_bias && columns.begin == 0) {
      parts.align();
      parts.add(row_bytes(WeightFormat::f32, t.hidden));
    }
    for (int i = 0; i < (a.head_norms ? 2 : 0); ++i) parts.vector(t.head_dim);
  } else {
    if (a.gated) parts.rows(format(WeightMatrix::gate), columns.size(), t.hidden);
    parts.rows(format(WeightMatrix::up), columns.size(), t.hidden);
    parts.align();
    parts.add(t.hidden * row_bytes(format(WeightMatrix::down), columns.size()));
    if (a.ffn_bias) {
      parts.align();
      const std::int64_t biases = a.gated ? 2 : 1;
      parts.add(row_bytes(WeightFormat::f32, biases * columns.size()));
      if (columns.begin == 0) {
        parts.align();
        parts.add(row_bytes(WeightFormat::f32, t.hidden));
      }
    }
  }
  if (a.sum_norms) parts.vector(t.hidden);
  return parts.bytes();
}

// In elements: rows (3 h            hidden, normed, partial
//                    + 2 H d        query, attention
//                    + m C          gate and up side by side (m = 2), or up alone (m = 1); of the
//                                   experts that a row uses, all
//                    + d            cosines and sines of the rows' positions, if they are rotary
//                    + 1)           token ids, with the embedding only
//              + sequences V        logits, with an LM head only; of a device that has rows of it
//                                   beside the one that embeds and samples, so many
//              + positions 2 L K d  keys and values
// A residual stream that is normed in place (post-norm) needs no normed rows beside it.
std::vector<BufferDeclaration> share_buffers(const Transformer& t, const Share& share,
                                             bool streams_head) {
  std::vector<BufferDeclaration> buffers;
  const auto add = [&](BufferKind kind, RowCount rows, std::int64_t columns) {
    if (columns > 0) buffers.push_back({.name = {kind}, .rows = rows, .columns = columns});
  };
  const bool computes = !share.layers.empty() && (!share.heads.empty() || !share.columns.empty());
  if (!computes && !share.embedding && !share.head) return buffers;
  constexpr std::size_t kMost = 12;
  buffers.reserve(kMost);
  const Architecture& architecture = t.architecture();
  const std::int64_t heads = share.heads.size();
  std::int64_t columns = 0;
  for (const std::int32_t layer : share.layers) {
    columns = std::max(columns, t.active_columns(layer, share.columns));
    if (!t.experts) break;
  }
  add(BufferKind::hidden, RowCount::rows, t.hidden);
  if (!architecture.post_norm()) add(BufferKind::normed, RowCount::rows, t.hidden);
  if (computes) {
    add(BufferKind::query, RowCount::rows, heads * t.query_dims());
    add(BufferKind::attention, RowCount::rows, heads * t.attended_dims());
    add(BufferKind::activation, RowCount::rows, columns);
    add(BufferKind::gated, RowCount::rows, architecture.gated ? columns : 0);
    add(BufferKind::partial, RowCount::rows, t.hidden);
    add(BufferKind::angles, RowCount::rows, heads > 0 ? t.angle_floats() : 0);
    if (heads > 0) {
      buffers.push_back({.name = {BufferKind::key_value},
                         .rows = RowCount::positions,
                         .columns = t.cached_numbers(share.heads),
                         .layers = share.layers,
                         .format = ElementFormat::cached,
                         .cache = t.cache,
                         .lifetime = Lifetime::sequence});
    }
  }
  if (share.embedding) {
    buffers.push_back({.name = {BufferKind::tokens}, .columns = 1, .format = ElementFormat::i32});
  }
  if (share.head && t.head_rows() > 0) {
    // All logits arrive on the device with the tokens.
    const Range own = head_rows(t, share);
    buffers.push_back({.name = {BufferKind::logits},
                       .rows = streams_head ? RowCount::sampled : RowCount::sequences,
                       .columns = share.embedding ? t.head_rows() : own.size(),
                       .first = share.embedding ? 0 : own.begin});
  }
  return buffers;
}

std::vector<DeviceStorage> storage_of(const TaskGraph& graph, std::size_t devices) {
  const MessageSchedule schedule = message_schedule(graph);
  const auto channels = channel_slots_by_device(graph, schedule, devices);
  std::vector<DeviceStorage> storage(devices);
  for (std::size_t d = 0; d < devices; ++d) {
    const std::span<const BufferDeclaration> declared = graph.declared(static_cast<DeviceIndex>(d));
    storage[d].buffers.assign(declared.begin(), declared.end());
    for (const ChannelSlots& end : channels[d]) {
      storage[d].channels.push_back(
          {.peer = end.peer, .outgoing = end.outgoing, .bytes = end.bytes()});
    }
  }
  return storage;
}

void widen(DeviceStorage& storage, const DeviceStorage& more) {
  for (const BufferDeclaration& buffer : more.buffers) {
    const BufferDeclaration* const known = find_buffer(storage.buffers, buffer.name);
    if (known == nullptr) {
      storage.buffers.push_back(buffer);
    } else {
      require(*known == buffer, "storage: a buffer has one declaration");
    }
  }
  for (const ChannelRoom& room : more.channels) {
    const auto known = std::ranges::find_if(storage.channels, [&](const ChannelRoom& other) {
      return other.peer == room.peer && other.outgoing == room.outgoing;
    });
    if (known == storage.channels.end()) {
      storage.channels.push_back(room);
    } else {
      known->bytes = std::max(known->bytes, room.bytes);
    }
  }
}

MemoryUse memory_use(const DeviceStorage& storage, const Extents& extents) {
  require(
      extents.rows >= 0 && extents.positions >= 0 && extents.sequences >= 0 && extents.sampled >= 0,
      "memory_use: negative extent");
  MemoryUse use;
  for (const BufferDeclaration& buffer : storage.buffers) {
    const auto bytes = static_cast<double>(buffer.bytes(extents));
    if (holds_messages(buffer.name.kind)) {
      use.buffers += bytes;
    } else if (buffer.lifetime == Lifetime::sequence) {
      use.kv_cache += bytes;
    } else {
      use.activations += bytes;
    }
  }
  for (const ChannelRoom& room : storage.channels)
    use.buffers += static_cast<double>(extents.steps * room.bytes);
  return use;
}

}  // namespace tandem::model
