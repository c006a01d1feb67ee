#pragma once

// One device's memory and arithmetic: buffers, key/value caches, weights, and the kernels that
// execute compute tasks. Independent of other devices, lanes and time.

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
  // Positions of the key/value cache: the sum over all sequences, each rounded up to whole blocks
  // (model::kCacheBlock). Any number of sequences may share them.
  std::int64_t cache_positions = 0;
  std::int32_t sequences = 1;  // that one step samples
  // Rows of logits: one a sequence, whose last row is sampled; more (the most sampled rows of a
  // step): one for each sampled row, as needed for a streamed LM head, which is read once.
  std::int32_t logit_rows = 0;  // raised to `sequences`
  // As the graphs of the run declare them; none: model::share_buffers of the shard's share.
  std::vector<model::BufferDeclaration> buffers{};
  int threads = 1;
  KernelSet kernels = default_kernel_set();
  bool may_spin = true;  // false: threads of this device sleep at once (a shared core)
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
  // Takes ownership of the weights. Allocates all memory, exactly as declared; execute() allocates
  // none.
  Compute(const model::Transformer& transformer, Shard shard, const ComputeLimits& limits);
  ~Compute();
  Compute(Compute&&) noexcept;
  Compute& operator=(Compute&&) noexcept;

  [[nodiscard]] const model::Transformer& transformer() const;

  // Streamed weights: Shard::bind, and Shard::unbind for what a release names.
  void bind(const LoadedBlock& block);
  void unbind(const model::Task& release);
  // Sets the source of embedding rows for `fetch` tasks; outlives this.
  void set_embedding_rows(EmbeddingRows& rows);

  // Sets the token ids of the next step's rows (on devices that embed). Throws Error for an id
  // outside the vocabulary.
  void set_tokens(std::span<const std::int32_t> ids);

  // Sets the sequences whose texts, including the tokens to come, are long enough for longrope's
  // long factors (Transformer::rotates_long); no effect on other models. None at first.
  void rotate_long(std::vector<std::int32_t> sequences);

  // Sets an upper limit on the steps to come, from which the gain of copying mapped weights follows
  // (MoveChoice). Before the first call the number is unknown and nothing is copied.
  void expect(std::int64_t steps);

  // Begins a step, before its first task and after the last one of the step before: executes the
  // batch's cache operations and allocates blocks for the positions of its rows. A sequence's rows
  // continue it: a sequence that starts over was freed. Steps of one pass (the same sequences and
  // positions, other layers) may follow one another. Returns the bytes copied of shared blocks that
  // a sequence now writes. Throws logic_error for other positions, and Error if too few blocks are
  // free, which planning and admission exclude.
  double begin(const model::Batch& batch);
  // The same if this device caches only these rows of the batch (model::cached_rows).
  double begin(const model::Batch& batch, model::Range cached);
  // Begins a step in which this device does nothing: frees the sequences that end. Other devices
  // cache the positions of its rows.
  void pass(const model::Batch& batch);
  // Gives `sequence` `positions` with arbitrary contents, for measurements.
  void pretend(std::int32_t sequence, std::int32_t positions);

  // Executes a cpu-lane task of the current step, other than `sample`. Throws Error if it needs
  // weights that the shard lacks, or if a mapped file has changed (Shard::check); logic_error for
  // other lanes and kinds, and for keys and values of positions that are not cached.
  void execute(const model::Batch& batch, const model::Task& task);

  // Returns the logits of the last executed lm_head's last row, [vocab].
  [[nodiscard]] std::span<const float> logits() const;
  // Returns the logits of `row` of the batch, after its lm_head and before another row replaces
  // them.
  [[nodiscard]] std::span<const float> logits(const model::Batch& batch, std::int32_t row) const;
  // Returns what the task samples from, until the next call: logits, or the merged candidates.
  // Throws Error if candidates are corrupt.
  [[nodiscard]] Scores scores(const model::Batch& batch, const model::Task& sample);

  // Copy a transfer's payload out and in: rows and columns of a buffer, packed row-major. Throw
  // logic_error if sizes differ or the range is outside the buffer.
  void read_rows(model::BufferRef from, model::Range rows, model::Range columns,
                 std::span<float> packed) const;
  void write_rows(model::BufferRef to, model::Range rows, model::Range columns,
                  std::span<const float> packed);

  // Copy the payload of a transfer of the current step out and in: rows and columns of its buffers,
  // as above. From the cache: keys, then values of the positions of the transfer's rows, for
  // key/value heads of the layer; columns [2 d a, 2 d b) are this device's heads a to b. Each row
  // is in the transfer's wire format, and a capture leaves its buffer with the rounded values that
  // the receiver gets (exec/kernels/wire_row.hpp). Throw logic_error also for positions that are
  // not cached, and Error if a number is not finite or exceeds the format's range.
  void capture(const model::Batch& batch, const model::Task& transfer, std::span<std::byte> packed);
  void deliver(const model::Batch& batch, const model::Task& transfer,
               std::span<const std::byte> packed);

  // The two ends of a transfer of weights (model::moves_weights): the sender's stored block, and
  // the receiver's memory for it. capture and deliver copy from and to these unless they are given
  // that same memory. Throw Error if the sender does not hold the block in one piece, logic_error
  // if the block has another size or no memory is declared for it.
  [[nodiscard]] std::span<const std::byte> sent_weights(const model::Task& transfer) const;
  [[nodiscard]] std::span<std::byte> gathered_weights_memory(const model::Task& transfer);

  // Frees all sequences.
  void reset();

  // Returns the bytes allocated, by category (weights, kv_cache, activations, buffers; program 0).
  [[nodiscard]] model::MemoryUse allocated() const;
  [[nodiscard]] double mapped_bytes() const;  // of its weights: Shard::mapped_bytes

  struct State;  // exec/compute/compute_state.hpp: what the kernels work on

 private:
  std::unique_ptr<State> state_;
};

}  // namespace tandem::exec
