#pragma once

// What Compute is made of; included by its .cpp files only.

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

// Rows of a prompt that one thread attends for at a time.
inline constexpr std::int64_t kAttendRows = 32;

// Throws Error: the shard has not `what` a task needs.
[[noreturn]] void lacks(const std::string& what);

// Outputs that a thread's range is a multiple of: whole groups of the 6 or 8 weight rows that are
// walked together, and whole cache lines of results, so that threads do not write to the same line.
inline constexpr std::int64_t kOutputGranule = 48;

// The sequence of what has arrived of other caches, in a table of its own.
inline constexpr std::int32_t kRemoteKv = 0;

struct Compute::State {
  struct Buffer {  // [rows, width], row-major; width 0: this device has none
    float* data = nullptr;
    std::int64_t rows = 0;
    std::int64_t width = 0;
    std::int64_t first = 0;  // what its first column is called
    [[nodiscard]] float* at(std::int64_t row) const { return data + row * width; }
    [[nodiscard]] float* at(std::int64_t row, std::int64_t column) const {
      return data + row * width + (column - first);
    }
  };
  // A block of another device's weights.
  struct GatheredBlock {
    std::int16_t slot = 0;
    std::span<std::byte> memory{};
    model::Range columns{};  // heads or FFN columns, of what is there
    std::int32_t layer = -1;
    model::WeightBlock block = model::WeightBlock::none;
    LayerTensors tensors{};
  };
  // What a product multiplies by: a layer's weights, and of which heads and FFN columns they are.
  struct Weights {
    const LayerTensors* tensors = nullptr;
    model::Range heads{};
    model::Range kv_heads{};
    model::Range columns{};
  };
  // Rows of a task that belong to one segment: batch rows `rows`, the first at position `past`.
  struct TaskSegment {
    std::int32_t sequence = 0;
    std::int32_t index = 0;  // of the segment in the batch
    model::Range rows;
    std::int32_t past = 0;
    std::int32_t end = 0;  // of all of the segment's positions
  };

  State(const model::Transformer& geometry, Shard weights, const ComputeLimits& limit);

  void execute(const model::Batch& batch, const model::Task& task);
  void execute_now(const model::Batch& batch, const model::Task& task);
  // Throws logic_error for one without rows, or that was not declared.
  [[nodiscard]] Buffer buffer(model::BufferRef ref) const;
  // Without memory if the device has none.
  [[nodiscard]] Buffer named(model::BufferKind kind) const;
  // At its place in memory.
  void place(const model::BufferDeclaration& one, const model::Extents& extents, std::byte* memory);

  // One a kind; the batch is checked already.
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
  // Of attention: a part and its softmax, into another.
  void merge_listed(const model::Task& task, const Buffer& x, const Buffer& more, const Buffer& y,
                    const Buffer& all) const;
  void project_out(const model::Task& task);
  void ffn_up(const model::Task& task);
  void ffn_down(const model::Task& task);
  void add_rows(const model::Task& task);
  void lm_head(const model::Batch& batch, const model::Task& task);
  void shortlist(const model::Batch& batch, const model::Task& task);
  // Where the logits of a sampled row of the batch are.
  [[nodiscard]] std::int64_t logit_row(const model::Batch& batch, std::int32_t row) const;

  // A row of `logit_rows`; throws logic_error where others have some of its columns.
  [[nodiscard]] std::span<const float> whole_logits(std::int64_t row) const;
  // Where a buffer has rows of the batch: logits and candidates have rows of their own.
  [[nodiscard]] model::Range stored_rows(const model::Batch& batch, model::BufferRef ref,
                                         model::Range rows) const;

  // Which rows of the batch a task's gathered rows are (exec/compute/compute_sparse.cpp).
  class Rows;
  // Keys and values of a head of a task's `keys`, which were gathered, in `packed_kv`.
  [[nodiscard]] CachedHead packed(const model::Task& task, std::int32_t kv_head);
  // Calls body(rows, keys, more) for rows of the task, one after another: of its keys, which were
  // gathered, the first of them sees the first `keys`, those at its own position or before, and
  // each row after it `more` than the one before: 0 or 1.
  template <class Body>
  void for_sight(const model::Task& task, const Rows& rows, model::Range some, std::int32_t kv_head,
                 const Body& body) const;

  // Checked access: throws logic_error or Error as Compute::execute says.
  void check_batch(const model::Batch& batch, const model::Task& task) const;
  [[nodiscard]] Buffer operand(model::BufferRef ref, const model::Task& task,
                               std::int64_t width) const;
  [[nodiscard]] const LayerTensors& layer(const model::Task& task) const;
  // Throws Error if what the task names is not among them.
  [[nodiscard]] Weights weights_of(const model::Task& product) const;
  // Throws logic_error for a slot that was not declared.
  [[nodiscard]] GatheredBlock& gathered_block(std::int16_t slot);
  void deliver_weights(const model::Task& transfer, std::span<const std::byte> packed);
  void need_heads(const model::Task& task) const;
  // A streamed block may not be in memory.
  static void need_loaded(const MatrixView& weights, const model::Task& task);

  // Throws logic_error unless the buffer has these rows and columns.
  static void check_part(const Buffer& buffer, model::Range rows, model::Range columns);

  // What `task` has of each segment, in order.
  template <class Body>
  static void for_segments(const model::Batch& batch, model::Range rows, const Body& body);

  // Throws logic_error unless the cache has the positions of every segment of `task`: those that it
  // writes, or keys that it attends.
  void need_cached(const model::Batch& batch, const model::Task& task) const;
  // Keys of the segment that an attend may see. Of a part of the keys that is not complete yet
  // none: so devices warm up, with a token before there is a prompt, which is another device's
  // where the first part is one position.
  [[nodiscard]] model::Range keys_of(const TaskSegment& segment, const model::Task& attend) const;
  // Whether a transfer's positions are not there yet, nor may anybody attend them: as above.
  [[nodiscard]] bool warms_up(const model::Batch& batch, const model::Task& transfer) const;
  // Whether a sequence that ends at `end` has all positions of a part `keys`. The one position of a
  // sequence may be the part or the token that warms up: then the cache tells.
  [[nodiscard]] bool is_complete(std::int32_t sequence, std::int32_t end, model::Range keys) const;
  // Calls body(row, heads) for each row of a transfer of the cache, counted from 0, with a function
  // that calls its argument for each key/value head: with its place in the cache, the position, and
  // where among the row's numbers its key begins; its value is half the row behind.
  template <class Body>
  void copy_cache(const model::Batch& batch, const model::Task& transfer, bool delivers,
                  const Body& body) const;
  void capture_cache(const model::Batch& batch, const model::Task& transfer,
                     std::span<std::byte> packed);
  void deliver_cache(const model::Batch& batch, const model::Task& transfer,
                     std::span<const std::byte> packed);
  void multiply(const WeightProduct& product);
  // Between steps: has weights copied that MoveChoice names.
  void move_weights();
  // Learned positions and token types of the task's rows, to their rows of the vocabulary.
  void add_positions(const model::Batch& batch, const model::Task& task, const Buffer& y);
  // y[rows] += bias, of a product whose sum over heads or columns `task` begins: the partial sums
  // of all devices and tasks together add it once.
  void add_bias(const model::Task& task, std::span<const float> bias, const Buffer& y);
  // That of `layer`; null: it does not rotate.
  [[nodiscard]] RopeTable* rope_of(std::int32_t layer);
  void grow_queries(const model::Batch& batch, const model::Task& task, const Buffer& q,
                    std::int64_t column) const;
  // Of rows that are an embedding's, positions apart.
  void scale_embedding(const model::Task& task, const Buffer& y) const;
  // The norm that a norm task means. Throws as execute does.
  [[nodiscard]] NormView norm_of(const model::Task& task) const;
  // Keys and values of the task's rows into the cache, from their columns of the attention buffer
  // (from `column`), which stages them; `bias`: of the first key/value head, or null. Values that
  // are not staged are in the cache already, without their bias.
  void store_keys(const model::Batch& batch, const model::Task& task, std::int64_t column,
                  model::Range kv_heads, const float* bias);
  void store_values(const model::Batch& batch, const model::Task& task, std::int64_t column,
                    model::Range kv_heads, const float* bias, bool staged);

  model::Transformer transformer;
  Shard shard;
  std::optional<MoveChoice> move;  // of a shard that may be copied
  std::int64_t steps_left = 0;     // Compute::expect
  EmbeddingRows* embedding_rows = nullptr;
  // What buffers are for: what the shard holds, or where others' weights visit all heads and FFN
  // columns.
  model::Share share;
  model::Range kv_share;  // key/value heads of share.heads
  ComputeLimits limits;
  const Kernels& kernels;
  ThreadPool pool;
  AlignedBuffer step_memory;
  AlignedBuffer receive_memory;
  // Where AddressSanitizer watches, each buffer has memory of exactly its declared extent instead.
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

// Throws Error: the type of the cache does not have every number of a key or value.
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
