#pragma once

// One device's memory and arithmetic: buffers, key/value caches, weights, and the kernels that
// execute compute tasks on them. Knows nothing of other devices, lanes or time.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/compute/shortlist.hpp"
#include "exec/kernels/kernel_set.hpp"
#include "exec/weights/shard.hpp"
#include "model/graph/memory.hpp"
#include "model/graph/task_graph.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

struct ComputeLimits {
  std::int32_t max_rows = 0;  // tokens in the largest step
  // Of the key/value cache, of all sequences: the sum of each one's, rounded up to whole blocks
  // (model::kCacheBlock). Any number of sequences may share them.
  std::int64_t cache_positions = 0;
  std::int32_t sequences = 1;  // that one step samples
  // Rows of logits: one a sequence, of its last row sampled; more (the most sampled rows of a
  // step): one for each sampled row, as a streamed LM head needs, which passes by once.
  std::int32_t logit_rows = 0;  // at least as many as sequences are made
  // As the graphs of the run declare them; none: model::share_buffers of the shard's share.
  std::vector<model::BufferDeclaration> buffers{};
  int threads = 1;
  KernelSet kernels = default_kernel_set();
  bool may_spin = true;  // false: threads of this device sleep at once (a core it must share)
  [[nodiscard]] model::Extents extents() const {
    return {.rows = max_rows,
            .positions = cache_positions,
            .sequences = sequences,
            .sampled = std::max(sequences, logit_rows)};
  }
};

// Not thread-safe, except that `read_rows` of one buffer and tasks that do not write that buffer
// may run at the same time.
class Compute {
 public:
  // Takes the weights. All memory is allocated here, exactly as declared; none by execute().
  Compute(const model::Transformer& transformer, Shard shard, const ComputeLimits& limits);
  ~Compute();
  Compute(Compute&&) noexcept;
  Compute& operator=(Compute&&) noexcept;

  [[nodiscard]] const model::Transformer& transformer() const;

  // Streamed weights: Shard::bind and Shard::unbind of what a release names.
  void bind(const LoadedBlock& block);
  void unbind(const model::Task& release);
  // Where `fetch` tasks find the embedding; outlives the compute.
  void set_embedding_rows(EmbeddingRows& rows);

  // Token ids of the coming step's rows (devices that embed). Throws Error if an id is not in the
  // vocabulary.
  void set_tokens(std::span<const std::int32_t> ids);

  // The sequences whose texts, with what is still to come of them, are so long that longrope's long
  // factors rotate them (Transformer::rotates_long); of no effect on other models. None at first.
  void rotate_long(std::vector<std::int32_t> sequences);

  // At most so many steps are still made, as far as anyone knows: what copies of mapped weights may
  // gain (MoveChoice). Until it is said nobody knows of any, and nothing is copied.
  void expect(std::int64_t steps);

  // A step begins, before its first task and after the last one of the step before: the batch's
  // cache operations take effect, and blocks are taken for the positions of its rows. A sequence's
  // rows continue it: one that begins anew was freed. Steps of one pass (the same sequences and
  // positions, other layers) may follow one another. Returns the bytes that were copied of blocks
  // which a sequence shared and now writes. Throws logic_error if positions are others, Error if
  // blocks are too few, which who plans and admits makes impossible.
  double begin(const model::Batch& batch);
  // The same where this device caches these rows of the batch only (model::cached_rows).
  double begin(const model::Batch& batch, model::Range cached);
  // A step in which this device does nothing: sequences that end are freed, and the positions of
  // its rows are not this device's.
  void pass(const model::Batch& batch);
  // Makes `sequence` have `positions` of whatever the memory holds, for measurements.
  void pretend(std::int32_t sequence, std::int32_t positions);

  // Executes a cpu-lane task other than `sample`, of the step that began. Throws Error if it needs
  // weights that the shard lacks, or a mapped file has changed (Shard::check), logic_error for
  // other lanes and kinds, and for keys and values of positions that the cache has not.
  void execute(const model::Batch& batch, const model::Task& task);

  // Logits of the last executed lm_head's last row, [vocab].
  [[nodiscard]] std::span<const float> logits() const;
  // Of `row` of the batch, after its lm_head and before another takes its place.
  [[nodiscard]] std::span<const float> logits(const model::Batch& batch, std::int32_t row) const;
  // What the task samples from, until the next call: logits, or the merged candidates. Throws Error
  // where these are corrupt.
  [[nodiscard]] Scores scores(const model::Batch& batch, const model::Task& sample);

  // A transfer's payload: rows and columns of a buffer, packed row-major; and its arrival.
  // Throws logic_error if sizes differ or the range is outside the buffer.
  void read_rows(model::BufferRef from, model::Range rows, model::Range columns,
                 std::span<float> packed) const;
  void write_rows(model::BufferRef to, model::Range rows, model::Range columns,
                  std::span<const float> packed);

  // The payload of a transfer of a step of `batch`, that began, and its arrival: rows and columns
  // of its buffers, as above. Of the cache: keys, then values of the positions of the transfer's
  // rows, of key/value heads of the layer: columns [2 d a, 2 d b) are heads a to b of this
  // device's. Each row is in the transfer's wire format, and a capture leaves its buffer with what
  // the receiver's will have (exec/kernels/wire_row.hpp). Throws logic_error also for positions
  // that the cache has not, and Error if a number is not finite or beyond what the format holds.
  void capture(const model::Batch& batch, const model::Task& transfer, std::span<std::byte> packed);
  void deliver(const model::Batch& batch, const model::Task& transfer,
               std::span<const std::byte> packed);

  // A transfer of weights (model::moves_weights) goes from the one to the other: where the sender
  // has them, and where the receiver has room for them, which capture and deliver copy from and to
  // where they are given other memory. Throws Error if the sender has not the block in one piece,
  // logic_error if the block's size is another, or there is no such room.
  [[nodiscard]] std::span<const std::byte> sent_weights(const model::Task& transfer) const;
  [[nodiscard]] std::span<std::byte> gathered_weights_memory(const model::Task& transfer);

  // Frees all sequences.
  void reset();

  // Bytes allocated, by category (weights, kv_cache, activations, buffers; program 0).
  [[nodiscard]] model::MemoryUse allocated() const;
  [[nodiscard]] double mapped_bytes() const;  // of its weights: Shard::mapped_bytes

  struct State;  // exec/compute/compute_state.hpp: what the kernels work on

 private:
  std::unique_ptr<State> state_;
};

}  // namespace tandem::exec
