#include "exec/compute.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "exec/compute_state.hpp"
#include "exec/kernels/attention.hpp"
#include "model/error.hpp"

namespace tandem::exec {

namespace {

using model::BufferKind;
using model::Range;

constexpr std::int64_t kAlignment = 16;  // floats: a cache line, and the widest vector

std::int64_t aligned(std::int64_t floats) {
  return (floats + kAlignment - 1) / kAlignment * kAlignment;
}

const ComputeLimits& checked(const model::Transformer& transformer, const model::Share& share,
                             const ComputeLimits& limits) {
  require(limits.max_rows >= 1 && limits.cache_positions >= 1 && limits.sequences >= 1 &&
              limits.receive_slots >= 0,
          "compute limits are positive");
  if (transformer.head_dim > kMaxHeadDim) {
    throw Error("model " + transformer.name + ": head_dim " + std::to_string(transformer.head_dim) +
                ", expected at most " + std::to_string(kMaxHeadDim) + "; use another model");
  }
  require(Range{0, static_cast<std::int32_t>(transformer.heads)}.contains(share.heads) &&
              Range{0, static_cast<std::int32_t>(transformer.intermediate)}.contains(share.columns),
          "the shard's share is one of the model");
  return limits;
}

}  // namespace

Compute::State::State(const model::Transformer& geometry, Shard weights, const ComputeLimits& limit)
    : transformer(geometry),
      shard(std::move(weights)),
      share(shard.tensors().share),
      limits(checked(transformer, share, limit)),
      pool(limit.threads,
           limit.may_spin ? std::chrono::microseconds(50) : std::chrono::microseconds(0)),
      cache(transformer, share, limit.cache_positions),
      tokens(static_cast<std::size_t>(std::max(limit.max_rows, 1))) {
  kv_share = share.heads.empty() ? Range{} : transformer.kv_heads_for(share.heads);

  const std::int64_t rows = limits.max_rows;
  const std::int64_t heads_width = share.heads.size() * transformer.head_dim;
  const model::Architecture& architecture = transformer.architecture();
  const bool rotary = !architecture.learned();
  Buffer angles;
  struct Wanted {
    Buffer* buffer;
    std::int64_t rows;
    std::int64_t width;
  };
  const Wanted wanted[] = {
      {&hidden, rows, transformer.hidden},
      {&normed, rows, transformer.hidden},
      {&query, rows, heads_width},
      {&attention, rows, heads_width},
      {&activation, rows, share.columns.size()},
      {&ups, rows, architecture.gated ? share.columns.size() : 0},
      {&partial, rows, transformer.hidden},
      {&angles, rows, rotary ? transformer.head_dim : 0},
      {&logit_rows, std::max(limits.sequences, limits.logit_rows),
       share.head ? transformer.head_rows() : 0},
  };
  std::int64_t floats = 0;
  for (const Wanted& w : wanted) floats += aligned(w.rows * w.width);
  activation_memory = AlignedBuffer(static_cast<std::size_t>(floats) * sizeof(float));
  float* next = activation_memory.floats().data();
  for (const Wanted& w : wanted) {
    *w.buffer = Buffer{next, w.rows, w.width};
    next += aligned(w.rows * w.width);
  }

  if (rotary) rope.emplace(transformer, limits.max_rows, angles.data);

  const std::int64_t slot = aligned(rows * transformer.hidden);
  receive_memory =
      AlignedBuffer(static_cast<std::size_t>(slot * limits.receive_slots) * sizeof(float));
  for (std::int32_t i = 0; i < limits.receive_slots; ++i) {
    receive.push_back({receive_memory.floats().data() + i * slot, rows, transformer.hidden});
  }

  for (AlignedBuffer* memory : {&activation_memory, &receive_memory}) memory->populate();
}

Compute::State::Buffer Compute::State::buffer(model::BufferRef ref) const {
  switch (ref.kind) {
    case BufferKind::hidden:
      return hidden;
    case BufferKind::normed:
      return normed;
    case BufferKind::query:
      return query;
    case BufferKind::attention:
      return attention;
    case BufferKind::activation:
      return activation;
    case BufferKind::partial:
      return partial;
    case BufferKind::logits:
      return logit_rows;
    case BufferKind::receive:
      require(ref.slot >= 0 && static_cast<std::size_t>(ref.slot) < receive.size(),
              "receive slot within the limits");
      return receive[static_cast<std::size_t>(ref.slot)];
    case BufferKind::none:
    case BufferKind::key_value:
      break;
  }
  throw std::logic_error("a buffer with rows is needed, not " +
                         std::string(model::to_string(ref.kind)));
}

Compute::Compute(const model::Transformer& transformer, Shard shard, const ComputeLimits& limits)
    : state_(std::make_unique<State>(transformer, std::move(shard), limits)) {}
Compute::~Compute() = default;
Compute::Compute(Compute&&) noexcept = default;
Compute& Compute::operator=(Compute&&) noexcept = default;

const model::Transformer& Compute::transformer() const { return state_->transformer; }

void Compute::bind(const LoadedBlock& block) { state_->shard.bind(block); }

void Compute::unbind(const model::Task& release) {
  state_->shard.unbind(release.block, release.layer);
}

void Compute::set_embedding_rows(EmbeddingRows& rows) { state_->embedding_rows = &rows; }

void Compute::set_tokens(std::span<const std::int32_t> ids) {
  require(ids.size() <= state_->tokens.size(), "no more tokens than rows in the largest step");
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= state_->transformer.vocab) {
      throw Error("token " + std::to_string(id) + ": expected 0 to " +
                  std::to_string(state_->transformer.vocab - 1) +
                  ", the model's vocabulary; use the model's own tokenizer");
    }
  }
  std::ranges::copy(ids, state_->tokens.begin());
  state_->token_count = static_cast<std::int64_t>(ids.size());
}

void Compute::begin(const model::Batch& batch) { state_->cache.begin(batch); }

void Compute::pretend(std::int32_t sequence, std::int32_t positions) {
  state_->cache.append(sequence, {0, positions});
}

void Compute::execute(const model::Batch& batch, const model::Task& task) {
  state_->execute(batch, task);
}

std::span<const float> Compute::logits() const {
  require(state_->last_logits >= 0, "logits exist after an lm_head");
  return {state_->logit_rows.at(state_->last_logits),
          static_cast<std::size_t>(state_->transformer.vocab)};
}

std::span<const float> Compute::logits(const model::Batch& batch, std::int32_t row) const {
  return {state_->logit_rows.at(state_->logit_row(batch, row)),
          static_cast<std::size_t>(state_->transformer.vocab)};
}

namespace {

void check_block(std::int64_t rows, std::int64_t width, Range r, Range columns,
                 std::size_t floats) {
  require(0 <= r.begin && r.begin <= r.end && r.end <= rows && 0 <= columns.begin &&
              columns.begin <= columns.end && columns.end <= width,
          "rows and columns within the buffer");
  require(floats == static_cast<std::size_t>(std::int64_t{r.size()} * columns.size()),
          "packed size equals rows times columns");
}

}  // namespace

void Compute::read_rows(model::BufferRef from, Range rows, Range columns,
                        std::span<float> packed) const {
  const State::Buffer b = state_->buffer(from);
  check_block(b.rows, b.width, rows, columns, packed.size());
  float* to = packed.data();
  for (std::int32_t row = rows.begin; row < rows.end; ++row, to += columns.size()) {
    std::copy_n(b.at(row, columns.begin), columns.size(), to);
  }
}

void Compute::write_rows(model::BufferRef to, Range rows, Range columns,
                         std::span<const float> packed) {
  const State::Buffer b = state_->buffer(to);
  check_block(b.rows, b.width, rows, columns, packed.size());
  const float* from = packed.data();
  for (std::int32_t row = rows.begin; row < rows.end; ++row, from += columns.size()) {
    std::copy_n(from, columns.size(), b.at(row, columns.begin));
  }
}

void Compute::reset() { state_->cache.clear(); }

model::MemoryUse Compute::allocated() const {
  model::MemoryUse use;
  use.weights = state_->shard.bytes();
  use.kv_cache = state_->cache.bytes();
  use.activations = static_cast<double>(state_->activation_memory.size());
  use.buffers = static_cast<double>(state_->receive_memory.size());
  return use;
}

}  // namespace tandem::exec
