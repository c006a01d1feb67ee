#include "exec/compute/compute.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "exec/compute/compute_state.hpp"
#include "exec/kernels/attention.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {

namespace {

using model::BufferKind;
using model::Range;

#if defined(__has_feature)  // clang
#if __has_feature(address_sanitizer)
#define TANDEM_WATCHED
#endif
#elif defined(__SANITIZE_ADDRESS__)  // gcc
#define TANDEM_WATCHED
#endif
#ifdef TANDEM_WATCHED
constexpr bool kWatched = true;
#else
constexpr bool kWatched = false;
#endif

[[maybe_unused]] std::unique_ptr<std::byte, void (*)(std::byte*)> exactly(std::size_t bytes) {
  constexpr std::align_val_t kAlignment{model::kBufferAlignment};
  auto* const memory = static_cast<std::byte*>(::operator new(bytes, kAlignment));
  std::fill_n(memory, bytes, std::byte{0});
  return {memory, [](std::byte* own) { ::operator delete(own, kAlignment); }};
}

// Returns the share that these declarations are for.
model::Share computed_share(const model::Transformer& transformer, model::Share held,
                            const ComputeLimits& limit) {
  const bool gathers = std::ranges::any_of(limit.buffers, [](const model::BufferDeclaration& one) {
    return one.name.kind == BufferKind::gathered_weights;
  });
  if (!gathers) return held;
  held.heads = {0, static_cast<std::int32_t>(transformer.heads)};
  held.columns = {0, static_cast<std::int32_t>(transformer.intermediate)};
  return held;
}

const ComputeLimits& checked(const model::Transformer& transformer, const model::Share& share,
                             const ComputeLimits& limits) {
  transformer.require_executable();
  require(limits.max_rows >= 1 && limits.cache_positions >= 1 && limits.sequences >= 1,
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

// Returns the positions of the device's own cache, without remote KV.
std::int64_t cached_positions(const ComputeLimits& limit) {
  const model::BufferDeclaration* const cache =
      model::find_buffer(limit.buffers, {BufferKind::key_value});
  if (cache == nullptr || cache->blocks == 0) return limit.cache_positions;
  return std::min(limit.cache_positions, cache->blocks * model::kCacheBlock);
}

}  // namespace

Compute::State::State(const model::Transformer& geometry, Shard weights, const ComputeLimits& limit)
    : transformer(geometry),
      shard(std::move(weights)),
      share(computed_share(transformer, shard.tensors().share, limit)),
      limits(checked(transformer, share, limit)),
      kernels(kernels_of(limit.kernels)),
      pool(limit.threads,
           limit.may_spin ? std::chrono::microseconds(50) : std::chrono::microseconds(0)),
      cache(transformer, share, cached_positions(limit)) {
  if (shard.may_copy()) move.emplace(shard.tensors().layers.size());
  kv_share = share.heads.empty() ? Range{} : transformer.kv_heads_for(share.heads);

  if (limits.buffers.empty())
    limits.buffers = model::share_buffers(transformer, share, limits.logit_rows > limits.sequences);
  const model::Extents extents = limits.extents();
  const model::MemoryUse declared = model::memory_use({.buffers = limits.buffers}, extents);
  if (const auto* const from_others = model::find_buffer(limits.buffers, {BufferKind::remote_kv})) {
    model::Share one_layer = share;
    one_layer.layers = {0, 1};
    const std::int64_t positions = from_others->elements(extents) / from_others->columns;
    remote_kv.emplace(transformer, one_layer, positions);
    static_cast<void>(remote_kv->append(kRemoteKv, {0, static_cast<std::int32_t>(positions)}));
  }
  require(declared.kv_cache == cache.bytes() + (remote_kv ? remote_kv->bytes() : 0.0),
          "the cache has the size that is declared");
  step_memory = AlignedBuffer(static_cast<std::size_t>(declared.activations));
  receive_memory = AlignedBuffer(static_cast<std::size_t>(declared.buffers));
  std::byte* next_step = step_memory.data();
  std::byte* next_receive = receive_memory.data();
  for (const model::BufferDeclaration& one : limits.buffers) {
    if (one.lifetime == model::Lifetime::sequence) continue;
    std::byte*& next = model::holds_messages(one.name.kind) ? next_receive : next_step;
    if constexpr (kWatched) {
      watched.push_back(exactly(
          static_cast<std::size_t>(one.bytes_of(one.layers.size() * one.elements(extents)))));
    }
    place(one, extents, kWatched ? watched.back().get() : next);
    next += one.bytes(extents);
  }
  for (AlignedBuffer* memory : {&step_memory, &receive_memory}) memory->populate();
  query = named(BufferKind::query);
  attention = named(BufferKind::attention);
  activation = named(BufferKind::activation);
  gated = named(BufferKind::gated);
  logit_rows = named(BufferKind::logits);
  require(query.width == share.heads.size() * transformer.head_dim &&
              activation.width == share.columns.size(),
          "the buffers that are declared are those of the shard's share");
  if (const Buffer angles = named(BufferKind::angles); angles.width > 0) {
    require(angles.width == transformer.angle_floats(), "angles of every rotation");
    rope.emplace(transformer, RopeLayers::all, limits.max_rows, angles.data);
    if (transformer.window_rope_theta > 0.0)
      window_rope.emplace(transformer, RopeLayers::windowed, limits.max_rows,
                          angles.data + limits.max_rows * transformer.rotated());
  }
}

void Compute::State::place(const model::BufferDeclaration& one, const model::Extents& extents,
                           std::byte* memory) {
  const std::int64_t rows = extents.of(one.rows);
  if (one.name.kind == BufferKind::tokens) {
    require(one.format == model::ElementFormat::i32, "tokens are whole numbers");
    tokens = {reinterpret_cast<std::int32_t*>(memory), static_cast<std::size_t>(rows)};
    return;
  }
  if (one.name.kind == BufferKind::gathered_weights) {
    require(one.format == model::ElementFormat::bytes, "weights that visit are as they lie");
    gathered_blocks.push_back(
        {.slot = one.name.slot,
         .memory = {memory, static_cast<std::size_t>(one.elements(extents))}});
    return;
  }
  const bool listed = one.name.kind == BufferKind::selection;
  require(one.format == (listed ? model::ElementFormat::i32 : model::ElementFormat::f32) &&
              one.layers.size() == 1,
          "a buffer of a step is f32, and one; a list whole numbers");
  // Lists as well: their bits are only viewed and sent.
  buffers.emplace_back(one.name,
                       Buffer{reinterpret_cast<float*>(memory), rows, one.columns, one.first});
}

std::span<const float> Compute::State::whole_logits(std::int64_t row) const {
  require(logit_rows.width == transformer.vocab, "all logits are here");
  return {logit_rows.at(row), static_cast<std::size_t>(transformer.vocab)};
}

Compute::State::Buffer Compute::State::buffer(model::BufferRef ref) const {
  const auto found = std::ranges::find(buffers, ref, [](const auto& entry) { return entry.first; });
  if (found != buffers.end()) return found->second;
  throw std::logic_error("no buffer " + std::string(model::to_string(ref.kind)) + " " +
                         std::to_string(ref.slot) + " with rows is declared");
}

Compute::State::Buffer Compute::State::named(BufferKind kind) const {
  return model::find_buffer(limits.buffers, {kind}) == nullptr ? Buffer{} : buffer({kind});
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
  require(ids.size() <= state_->tokens.size(),
          "no more tokens than rows in the largest step, on a device that embeds");
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

void Compute::rotate_long(std::vector<std::int32_t> sequences) {
  std::ranges::sort(sequences);
  state_->long_sequences = std::move(sequences);
}

void Compute::expect(std::int64_t steps) { state_->steps_left = steps; }

double Compute::begin(const model::Batch& batch) { return begin(batch, {0, batch.rows()}); }

double Compute::begin(const model::Batch& batch, Range cached) {
  state_->move_weights();
  return state_->cache.begin(batch, cached);
}

void Compute::pass(const model::Batch& batch) { state_->cache.pass(batch); }

void Compute::pretend(std::int32_t sequence, std::int32_t positions) {
  state_->cache.append(sequence, {0, positions});
}

void Compute::execute(const model::Batch& batch, const model::Task& task) {
  state_->execute(batch, task);
  state_->shard.check();
}

std::span<const float> Compute::logits() const {
  require(state_->last_logits >= 0, "logits exist after an lm_head");
  return state_->whole_logits(state_->last_logits);
}

std::span<const float> Compute::logits(const model::Batch& batch, std::int32_t row) const {
  return state_->whole_logits(state_->logit_row(batch, row));
}

Scores Compute::scores(const model::Batch& batch, const model::Task& sample) {
  if (sample.input.kind != BufferKind::candidates) return Scores(logits(batch, sample.rows.begin));
  const State::Buffer candidates = state_->buffer(sample.input);
  const Range rows = state_->stored_rows(batch, sample.input, sample.rows);
  State::check_part(candidates, rows, sample.columns);
  const double denominator =
      merge_candidates({candidates.at(rows.begin, sample.columns.begin),
                        static_cast<std::size_t>(sample.columns.size())},
                       static_cast<std::size_t>(sample.chosen.size()), state_->best);
  return {state_->best, denominator};
}

void Compute::reset() { state_->cache.clear(); }

double Compute::mapped_bytes() const { return state_->shard.mapped_bytes(); }

model::MemoryUse Compute::allocated() const {
  model::MemoryUse use;
  use.weights = state_->shard.bytes();
  use.kv_cache = state_->cache.bytes() + (state_->remote_kv ? state_->remote_kv->bytes() : 0.0);
  use.activations = static_cast<double>(state_->step_memory.size());
  use.buffers = static_cast<double>(state_->receive_memory.size());
  return use;
}

}  // namespace tandem::exec
