// Messages from and to a device's buffers and cache.

#include <algorithm>
#include <stdexcept>
#include <string>

#include "exec/compute/compute_state.hpp"
#include "exec/kernels/cached_row.hpp"
#include "exec/kernels/scratch.hpp"
#include "exec/kernels/wire_row.hpp"
#include "exec/weights/source/layout.hpp"

namespace tandem::exec {
namespace {

using model::BufferKind;
using model::Range;
using model::Task;
using model::WireFormat;

void check_payload(const Task& transfer, std::size_t bytes) {
  require(bytes == static_cast<std::size_t>(payload_bytes(transfer)),
          "a payload of the transfer's size");
}

std::size_t row_bytes(const Task& transfer) {
  return static_cast<std::size_t>(wire_row_bytes(transfer.wire, transfer.columns.size()));
}

// Throws Error where they do not fit the format.
void encode_payload(const Task& transfer, std::span<float> row, std::span<std::byte> sent) {
  if (encode_row(transfer.wire, row, sent)) return;
  const bool in_layer = transfer.layer >= 0;
  throw Error(
      std::string("wire type ") + std::string(to_string(transfer.wire)) + ": a number sent " +
      (in_layer ? "in layer " + std::to_string(transfer.layer) : "between layers") +
      " is not finite or too large for it, expected at most " +
      (transfer.wire == WireFormat::f16    ? "65504"
       : transfer.wire == WireFormat::q8_0 ? "8.3e6"
                                           : "3.38e38") +
      "; plan with '--wire-type f32'" + (transfer.wire == WireFormat::bf16 ? "" : " or bf16"));
}

void check_packed(Range rows, Range columns, std::size_t floats) {
  require(floats == static_cast<std::size_t>(std::int64_t{rows.size()} * columns.size()),
          "packed size equals rows times columns");
}

}  // namespace

void Compute::State::check_part(const Buffer& buffer, Range rows, Range columns) {
  require(0 <= rows.begin && rows.begin <= rows.end && rows.end <= buffer.rows &&
              buffer.first <= columns.begin && columns.begin <= columns.end &&
              columns.end <= buffer.first + buffer.width,
          "rows and columns within the buffer");
}

Range Compute::State::stored_rows(const model::Batch& batch, model::BufferRef ref,
                                  Range rows) const {
  if (!model::of_sampled_rows(ref.kind) || rows.empty()) return rows;
  const Range stored{static_cast<std::int32_t>(logit_row(batch, rows.begin)),
                     static_cast<std::int32_t>(logit_row(batch, rows.end - 1)) + 1};
  require(stored.size() == rows.size(), "a row of logits for each row");
  return stored;
}

void Compute::read_rows(model::BufferRef from, Range rows, Range columns,
                        std::span<float> packed) const {
  const State::Buffer b = state_->buffer(from);
  State::check_part(b, rows, columns);
  check_packed(rows, columns, packed.size());
  float* to = packed.data();
  for (std::int32_t row = rows.begin; row < rows.end; ++row, to += columns.size()) {
    std::copy_n(b.at(row, columns.begin), columns.size(), to);
  }
}

void Compute::write_rows(model::BufferRef to, Range rows, Range columns,
                         std::span<const float> packed) {
  const State::Buffer b = state_->buffer(to);
  State::check_part(b, rows, columns);
  check_packed(rows, columns, packed.size());
  const float* from = packed.data();
  for (std::int32_t row = rows.begin; row < rows.end; ++row, from += columns.size()) {
    std::copy_n(from, columns.size(), b.at(row, columns.begin));
  }
}

void Compute::capture(const model::Batch& batch, const Task& transfer,
                      std::span<std::byte> packed) {
  check_payload(transfer, packed.size());
  if (model::moves_weights(transfer)) {
    std::ranges::copy(sent_weights(transfer), packed.begin());
    return;
  }
  if (transfer.input.kind == BufferKind::key_value)
    return state_->capture_cache(batch, transfer, packed);
  const State::Buffer from = state_->buffer(transfer.input);
  const Range rows = state_->stored_rows(batch, transfer.input, transfer.rows);
  State::check_part(from, rows, transfer.columns);
  const std::size_t bytes = row_bytes(transfer);
  const auto width = static_cast<std::size_t>(transfer.columns.size());
  for (std::int32_t row = rows.begin; row < rows.end; ++row) {
    encode_payload(transfer, {from.at(row, transfer.columns.begin), width}, packed.first(bytes));
    packed = packed.subspan(bytes);
  }
}

void Compute::deliver(const model::Batch& batch, const Task& transfer,
                      std::span<const std::byte> packed) {
  check_payload(transfer, packed.size());
  if (model::moves_weights(transfer)) return state_->deliver_weights(transfer, packed);
  if (transfer.output.kind == BufferKind::key_value || model::moves_cache(transfer))
    return state_->deliver_cache(batch, transfer, packed);
  const State::Buffer to = state_->buffer(transfer.output);
  const Range rows = state_->stored_rows(batch, transfer.output, transfer.rows);
  State::check_part(to, rows, transfer.columns);
  const std::size_t bytes = row_bytes(transfer);
  const auto width = static_cast<std::size_t>(transfer.columns.size());
  for (std::int32_t row = rows.begin; row < rows.end; ++row) {
    decode_row(transfer.wire, packed.first(bytes), {to.at(row, transfer.columns.begin), width});
    packed = packed.subspan(bytes);
  }
}

std::span<const std::byte> Compute::sent_weights(const Task& transfer) const {
  const LayerTensors& layer = state_->layer(transfer);
  const std::span<const std::byte> block =
      transfer.block == model::WeightBlock::attention ? layer.attention_block : layer.ffn_block;
  if (block.empty()) lacks("a block of layer " + std::to_string(transfer.layer) + " in one piece");
  require(block.size() == static_cast<std::size_t>(payload_bytes(transfer)),
          "a transfer of weights is of the whole block");
  return block;
}

std::span<std::byte> Compute::gathered_weights_memory(const Task& transfer) {
  const std::span<std::byte> room = state_->gathered_block(transfer.output.slot).memory;
  const auto bytes = static_cast<std::size_t>(payload_bytes(transfer));
  require(bytes <= room.size(), "gathered weights exceed their slot");
  return room.first(bytes);
}

Compute::State::GatheredBlock& Compute::State::gathered_block(std::int16_t slot) {
  const auto found = std::ranges::find(gathered_blocks, slot, &GatheredBlock::slot);
  require(found != gathered_blocks.end(), "gathered weights need a declared slot");
  return *found;
}

void Compute::State::deliver_weights(const Task& transfer, std::span<const std::byte> packed) {
  GatheredBlock& gathered = gathered_block(transfer.output.slot);
  require(packed.size() <= gathered.memory.size(), "gathered weights exceed their slot");
  if (packed.data() != gathered.memory.data()) std::ranges::copy(packed, gathered.memory.begin());
  model::Share of;
  of.layers = {transfer.layer, transfer.layer + 1};
  (transfer.block == model::WeightBlock::attention ? of.heads : of.columns) = transfer.keys;
  const ShardLayout layout = layout_of(transformer, of);
  const auto block = std::ranges::find(layout.blocks, transfer.block, &LayoutBlock::kind);
  require(block != layout.blocks.end() && block->bytes == packed.size(),
          "a transfer of weights is of the whole block");
  gathered.columns = transfer.keys;
  gathered.layer = transfer.layer;
  gathered.block = transfer.block;
  gathered.tensors = {};
  bind_layer(gathered.tensors, *block, gathered.memory.data());
}

namespace {

// Scratch for a row of so many numbers of the cache, whose heads are apart.
std::span<float> joined_row(std::int64_t numbers) {
  require(numbers <= static_cast<std::int64_t>(KernelScratch::kTileFloats),
          "a row of the cache fits the scratch memory");
  return {kernel_scratch().tile, static_cast<std::size_t>(numbers)};
}

// Keys of all heads, then values, from and to what `heads` names (Compute::State::copy_cache).
template <class Heads>
void load_row(const Heads& heads, std::span<float> numbers, std::int64_t d) {
  heads([&](const CachedHead& home, std::int64_t position, std::int64_t at) {
    load_key(home, position, d, numbers.data() + at);
    load_value(home, position, d, numbers.data() + numbers.size() / 2 + at);
  });
}

// Throws Error where the cache's type does not have them.
template <class Heads>
void store_row(const Heads& heads, std::span<const float> numbers, std::int64_t d,
               std::int32_t layer) {
  heads([&](const CachedHead& home, std::int64_t position, std::int64_t at) {
    const auto refuse = [&](std::string_view what) {
      refuse_stored(home.format, what, layer, static_cast<std::int32_t>(position));
    };
    if (!store_key(numbers.data() + at, position, home, d)) refuse("key");
    if (!store_value(numbers.data() + numbers.size() / 2 + at, position, home, d)) refuse("value");
  });
}

// Rounds a row for sending if the cache rounds numbers, too: alternately in both types until
// nothing changes, so that the row, sent again by any device that has it, is the same bytes.
template <class Heads>
void settle(const Heads& heads, const Task& transfer, std::span<float> numbers,
            std::span<std::byte> sent, std::int64_t d) {
  constexpr int kMost = 8;  // bf16 takes one round, q8_0 at most two
  require(sent.size() <= KernelScratch::kPanelBytes, "a row of the cache fits the scratch memory");
  const std::span<std::byte> before{kernel_scratch().panel, sent.size()};
  for (int i = 0; i < kMost; ++i) {
    std::ranges::copy(sent, before.begin());
    load_row(heads, numbers, d);
    encode_payload(transfer, numbers, sent);
    if (std::ranges::equal(before, sent)) return;
    store_row(heads, numbers, d, transfer.layer);
  }
  throw std::logic_error("a row of the cache settles in its type and the wire's");
}

}  // namespace

bool Compute::State::warms_up(const model::Batch& batch, const Task& transfer) const {
  if (!model::moves_cache(transfer)) return false;
  const model::Segment& segment = batch.segments.front();
  return !is_complete(segment.sequence, segment.past + segment.rows, transfer.keys);
}

void Compute::State::capture_cache(const model::Batch& batch, const Task& transfer,
                                   std::span<std::byte> packed) {
  const std::int64_t values = transfer.columns.size() / 2;
  const std::span<float> numbers = joined_row(2 * values);
  const std::size_t bytes = row_bytes(transfer);
  if (warms_up(batch, transfer)) {
    std::ranges::fill(packed, std::byte{0});
    return;
  }
  copy_cache(batch, transfer, false, [&](std::size_t row, const auto& heads) {
    load_row(heads, numbers, transformer.head_dim);
    const std::span<std::byte> sent = packed.subspan(row * bytes, bytes);
    encode_payload(transfer, numbers, sent);
    if (transfer.wire == WireFormat::f32) return;
    store_row(heads, numbers, transformer.head_dim, transfer.layer);
    if (transformer.cache == model::CacheFormat::f32) return;
    // Stored, it may have been rounded once more: sent again, by whomever, it has to be the same
    // bytes.
    settle(heads, transfer, numbers, sent, transformer.head_dim);
  });
}

void Compute::State::deliver_cache(const model::Batch& batch, const Task& transfer,
                                   std::span<const std::byte> packed) {
  const std::span<float> numbers = joined_row(transfer.columns.size());
  const std::size_t bytes = row_bytes(transfer);
  copy_cache(batch, transfer, true, [&](std::size_t row, const auto& heads) {
    decode_row(transfer.wire, packed.subspan(row * bytes, bytes), numbers);
    store_row(heads, numbers, transformer.head_dim, transfer.layer);
  });
}

}  // namespace tandem::exec
