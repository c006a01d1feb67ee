#pragma once

// The implementation of Compute; included by its .cpp files only.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/compute/block_cache.hpp"
#include "exec/compute/compute.hpp"
#include "exec/compute/shortlist.hpp"
#include "exec/kernels/kernel_table.hpp"
#include "exec/kernels/product.hpp"
#include "exec/kernels/rope.hpp"
#include "exec/kernels/thread_pool.hpp"
#include "exec/kernels/weight_operands.hpp"
#include "exec/weights/files/aligned_buffer.hpp"
#include "exec/weights/move_choice.hpp"
#include "exec/weights/tensors.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {

// Rows of a prompt that one thread attends for at once.
inline constexpr std::int64_t kAttendRows = 32;

// Throws Error: the shard lacks `what` a task needs.
[[noreturn]] void lacks(const std::string& what);

// Granule of a thread's range of outputs: whole groups of the 6 or 8 weight rows that a kernel
// walks together, and whole cache lines of results, so that threads do not write to the same line.
inline constexpr std::int64_t kOutputGranule = 48;

// The sequence that holds remote KV, in a table of its own.
inline constexpr std::int32_t kRemoteKv = 0;

struct Compute::State {
  struct Buffer {  // [rows, width], row-major; width 0: this device has none
    float* data = nullptr;
    std::int64_t rows = 0;
    std::int64_t width = 0;
    std::int64_t first = 0;  // the number of its first column
    [[nodiscard]] float* at(std::int64_t row) const { return data + row * width; }
    [[nodiscard]] float* at(std::int64_t row, std::int64_t column) const {
      return data + row * width + (column - first);
    }
  };
  // A block of another device's weights.
  struct GatheredBlock {
    std::int16_t slot = 0;
    std::span<std::byte> memory{};
    model::Range columns{};  // heads or FFN columns in it
    std::int32_t layer = -1;
    model::WeightBlock block = model::WeightBlock::none;
    LayerTensors tensors{};
  };
  // Operands of products: a layer's weights, and their heads and FFN columns.
  struct Weights {
    const LayerTensors* tensors = nullptr;
    model::Range heads{};
    model::Range kv_heads{};
    model::Range columns{};
  };
  // A task's rows of one segment: batch rows `rows`, the first at position `past`.
  struct TaskSegment {
    std::int32_t sequence = 0;
    std::int32_t index = 0;  // of the segment in the batch
    model::Range rows;
    std::int32_t past = 0;
    std::int32_t end = 0;  // the segment's length after all its rows
  };

  State(const model::Transformer& geometry, Shard weights, const ComputeLimits& limit);

  void execute(const model::Batch& batch, const model::Task& task);
  void execute_now(const model::Batch& batch, const model::Task& task);
  // Returns a buffer. Throws logic_error if it has no rows or was not declared.
  [[nodiscard]] Buffer buffer(model::BufferRef ref) const;
  // Returns a buffer; without memory if the device has none.
  [[nodiscard]] Buffer named(model::BufferKind kind) const;
  // Sets the memory of a declared buffer.
  void place(const model::BufferDeclaration& one, const model::Extents& extents, std::byte* memory);

  // One function a kind; the batch has been checked.
  void embed(const model::Batch& batch, const model::Task& task);
  void fetch(const model::Batch& batch, const model::Task& task);
  void norm(const model::Task& task);
  void project_qkv(const model::Batch& batch, const model::Task& task);
  void attend(const model::Batch& batch, const model::Task& task);
  void merge(const model::Task& task);
  void select(const model::Task& task);
  void gather(const model::Batch& batch, const model::Task& task);
  void attend_gathered(const model::Task& task);
  void score(const model::Batch& batch, const model::Task& task);
  void add_listed(const model::Task& task);
  // Merges an attention result and its softmax into another.
  void merge_listed(const model::Task& task, const Buffer& x, const Buffer& more, const Buffer& y,
                    const Buffer& all) const;
  void project_out(const model::Task& task);
  void ffn_up(const model::Task& task);
  void ffn_down(const model::Task& task);
  void add_rows(const model::Task& task);
  void lm_head(const model::Batch& batch, const model::Task& task);
  void shortlist(const model::Batch& batch, const model::Task& task);
  // Returns the row of logits of a sampled row of the batch.
  [[nodiscard]] std::int64_t logit_row(const model::Batch& batch, std::int32_t row) const;

  // Returns a row of `logit_rows`. Throws logic_error if other devices hold some of its columns.
  [[nodiscard]] std::span<const float> whole_logits(std::int64_t row) const;
  // Returns where a buffer stores rows of the batch: logits and candidates have rows of their own.
  [[nodiscard]] model::Range stored_rows(const model::Batch& batch, model::BufferRef ref,
                                         model::Range rows) const;

  // The batch rows behind a task's gathered rows (exec/compute/compute_sparse.cpp).
  class Rows;
  // Packs the gathered keys and values of a head of a task's `keys` into `packed_kv`.
  [[nodiscard]] CachedHead packed(const model::Task& task, std::int32_t kv_head);
  // Calls body(rows, keys, more) for runs of the task's rows. Of its gathered keys the first row of
  // a run sees the first `keys`, those at or before its position, and each further row `more` than
  // the one before: 0 or 1.
  template <class Body>
  void for_sight(const model::Task& task, const Rows& rows, model::Range some, std::int32_t kv_head,
                 const Body& body) const;

  // Checks that throw logic_error or Error as Compute::execute documents.
  void check_batch(const model::Batch& batch, const model::Task& task) const;
  [[nodiscard]] Buffer operand(model::BufferRef ref, const model::Task& task,
                               std::int64_t width) const;
  [[nodiscard]] const LayerTensors& layer(const model::Task& task) const;
  // Returns the weights of a product. Throws Error if the task names others.
  [[nodiscard]] Weights weights_of(const model::Task& product) const;
  // Returns a slot. Throws logic_error if it was not declared.
  [[nodiscard]] GatheredBlock& gathered_block(std::int16_t slot);
  void deliver_weights(const model::Task& transfer, std::span<const std::byte> packed);
  void need_heads(const model::Task& task) const;
  // Throws Error if a streamed block is not in memory.
  static void need_loaded(const MatrixView& weights, const model::Task& task);

  // Throws logic_error unless the buffer has these rows and columns.
  static void check_part(const Buffer& buffer, model::Range rows, model::Range columns);

  // Calls body for the task's part of each segment, in order.
  template <class Body>
  static void for_segments(const model::Batch& batch, model::Range rows, const Body& body);

  // Throws logic_error unless the positions of every segment of `task` are cached: those that it
  // writes, or the keys that it attends to.
  void need_cached(const model::Batch& batch, const model::Task& task) const;
  // Returns the segment's keys that an attend may see; none of a part that is incomplete. Devices
  // warm up in that state: with a token before there is a prompt, which another device caches if
  // the first part has one position.
  [[nodiscard]] model::Range keys_of(const TaskSegment& segment, const model::Task& attend) const;
  // Returns whether a transfer's positions are not cached yet and no task may attend to them: as
  // above.
  [[nodiscard]] bool warms_up(const model::Batch& batch, const model::Task& transfer) const;
  // Returns whether a sequence that ends at `end` has all positions of a part `keys`. The only
  // position of a sequence may be the part or the warm-up token: then the cache decides.
  [[nodiscard]] bool is_complete(std::int32_t sequence, std::int32_t end, model::Range keys) const;
  // Calls body(row, heads) for each row of a transfer of the cache, counted from 0. `heads` calls
  // its argument for each key/value head with its place in the cache, the position, and the offset
  // of its key among the row's numbers; its value is half a row behind.
  template <class Body>
  void copy_cache(const model::Batch& batch, const model::Task& transfer, bool delivers,
                  const Body& body) const;
  void capture_cache(const model::Batch& batch, const model::Task& transfer,
                     std::span<std::byte> packed);
  void deliver_cache(const model::Batch& batch, const model::Task& transfer,
                     std::span<const std::byte> packed);
  void multiply(const WeightProduct& product);
  // Between steps: starts the copies that MoveChoice selects.
  void move_weights();
  // Adds learned positions and token types to the task's rows.
  void add_positions(const model::Batch& batch, const model::Task& task, const Buffer& y);
  // y[rows] += bias, for a product that contains the first head or column: over all devices and
  // tasks the bias is added once.
  void add_bias(const model::Task& task, std::span<const float> bias, const Buffer& y);
  // Returns the table of `layer`; null: it does not rotate.
  [[nodiscard]] RopeTable* rope_of(std::int32_t layer);
  void grow_queries(const model::Batch& batch, const model::Task& task, const Buffer& q,
                    std::int64_t column) const;
  // Scales embedding rows, before positions are added.
  void scale_embedding(const model::Task& task, const Buffer& y) const;
  // Returns the norm of a norm task. Throws as execute does.
  [[nodiscard]] NormView norm_of(const model::Task& task) const;
  // Stores keys and values of the task's rows, which are staged in the attention buffer from
  // `column`, into the cache. `bias`: of the first key/value head, or null. Values that are not
  // staged are already cached, without their bias.
  void store_keys(const model::Batch& batch, const model::Task& task, std::int64_t column,
                  model::Range kv_heads, const float* bias);
  void store_values(const model::Batch& batch, const model::Task& task, std::int64_t column,
                    model::Range kv_heads, const float* bias, bool staged);

  model::Transformer transformer;
  Shard shard;
  std::optional<MoveChoice> move;  // of a shard that may be copied
  std::int64_t steps_left = 0;     // Compute::expect
  EmbeddingRows* embedding_rows = nullptr;
  // The share that buffers are for: the shard's, or with gathered weights all heads and FFN
  // columns.
  model::Share share;
  model::Range kv_share;  // key/value heads of share.heads
  ComputeLimits limits;
  const Kernels& kernels;
  ThreadPool pool;
  AlignedBuffer step_memory;
  AlignedBuffer receive_memory;
  // With AddressSanitizer each buffer has separate memory of exactly its declared extent.
  std::vector<std::unique_ptr<std::byte, void (*)(std::byte*)>> watched;
  BlockCache cache;
  std::optional<BlockCache> remote_kv;  // of other caches, of one layer and sequence
  std::vector<std::pair<model::BufferRef, Buffer>> buffers;  // f32, of a step
  std::vector<GatheredBlock> gathered_blocks;
  Buffer query, attention, activation, gated, logit_rows;  // of these, those that kernels name
  std::optional<RopeTable> rope;                           // if positions are rotary
  std::optional<RopeTable> window_rope;      // of windowed layers, if their base is another
  std::vector<std::int32_t> long_sequences;  // sorted
  std::span<std::int32_t> tokens;
  std::int64_t token_count = 0;
  std::int64_t last_logits = -1;  // row of `logit_rows`
  std::vector<Candidate> best;    // of the present row
};

// Throws Error: the cache's type cannot represent a number of a key or value.
[[noreturn]] void refuse_stored(model::CacheFormat format, std::string_view what,
                                std::int32_t layer, std::int32_t position);

template <class Body>
void Compute::State::for_segments(const model::Batch& batch, model::Range rows, const Body& body) {
  std::int32_t first = 0;
  std::int32_t index = 0;
  for (const model::Segment& segment : batch.segments) {
    const model::Range all{first, first + segment.rows};
    const model::Range mine = all.intersect(rows);
    if (!mine.empty()) {
      body(TaskSegment{.sequence = segment.sequence,
                       .index = index,
                       .rows = mine,
                       .past = segment.past + (mine.begin - first),
                       .end = segment.past + segment.rows});
    }
    first = all.end;
    ++index;
  }
}

template <class Body>
void Compute::State::copy_cache(const model::Batch& batch, const model::Task& transfer,
                                bool delivers, const Body& body) const {
  check_batch(batch, transfer);
  if (!(delivers && model::moves_cache(transfer))) need_cached(batch, transfer);
  const std::int64_t d = transformer.head_dim;
  const auto pair = static_cast<std::int32_t>(2 * d);  // columns of a head's key and value
  const model::Range heads{transfer.columns.begin / pair, transfer.columns.end / pair};
  require(share.layers.contains(transfer.layer) && transfer.columns.begin == heads.begin * pair &&
              transfer.columns.end == heads.end * pair && heads.begin >= 0 &&
              heads.end <= kv_share.size(),
          "a transfer of keys and values of a layer's heads");
  const auto visit = [&](const BlockCache& home, std::int32_t sequence, std::int32_t layer,
                         model::Range positions, std::size_t row) {
    const std::span<const std::int32_t> blocks = home.table().blocks(sequence);
    for (std::int32_t position = positions.begin; position < positions.end; ++position, ++row) {
      body(row, [&](const auto& each) {
        for (std::int32_t head = heads.begin; head < heads.end; ++head)
          each(home.head(blocks, layer, kv_share.begin + head), position, (head - heads.begin) * d);
      });
    }
  };
  if (model::moves_cache(transfer)) {
    return delivers
               ? visit(*remote_kv, kRemoteKv, 0, transfer.keys, 0)
               : visit(cache, batch.segments.front().sequence, transfer.layer, transfer.keys, 0);
  }
  std::size_t row = 0;
  for_segments(batch, transfer.rows, [&](const TaskSegment& segment) {
    visit(cache, segment.sequence, transfer.layer,
          {segment.past, segment.past + segment.rows.size()}, row);
    row += static_cast<std::size_t>(segment.rows.size());
  });
}

}  // namespace tandem::exec
