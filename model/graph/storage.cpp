#include "model/graph/storage.hpp"

#include <algorithm>
#include <stdexcept>

namespace tandem::model {

std::string_view to_string(BufferKind buffer) {
  switch (buffer) {
    case BufferKind::none:
      return "none";
    case BufferKind::hidden:
      return "hidden";
    case BufferKind::normed:
      return "normed";
    case BufferKind::query:
      return "query";
    case BufferKind::key_value:
      return "key_value";
    case BufferKind::attention:
      return "attention";
    case BufferKind::activation:
      return "activation";
    case BufferKind::partial:
      return "partial";
    case BufferKind::receive:
      return "receive";
    case BufferKind::logits:
      return "logits";
    case BufferKind::tokens:
      return "tokens";
    case BufferKind::gated:
      return "gated";
    case BufferKind::angles:
      return "angles";
    case BufferKind::remote_kv:
      return "remote_kv";
    case BufferKind::softmax:
      return "softmax";
    case BufferKind::candidates:
      return "candidates";
    case BufferKind::selection:
      return "selection";
    case BufferKind::gathered:
      return "gathered";
    case BufferKind::scores:
      return "scores";
    case BufferKind::packed_kv:
      return "packed_kv";
    case BufferKind::gathered_weights:
      return "gathered_weights";
  }
  throw std::logic_error("to_string: no such buffer");
}

std::int64_t Extents::of(RowCount count) const {
  switch (count) {
    case RowCount::rows:
      return rows;
    case RowCount::positions:
      return cache_blocks(positions) * kCacheBlock;
    case RowCount::sequences:
      return sequences;
    case RowCount::sampled:
      return sampled;
    case RowCount::one:
      return 1;
  }
  throw std::logic_error("Extents: no such count");
}

std::int64_t BufferDeclaration::elements(const Extents& extents) const {
  const std::int64_t all = extents.of(rows);
  return (blocks == 0 ? all : std::min(all, blocks * kCacheBlock)) * columns;
}

std::int64_t BufferDeclaration::bytes_of(std::int64_t elements) const {
  switch (format) {
    case ElementFormat::f32:
    case ElementFormat::i32:
      return 4 * elements;
    case ElementFormat::bytes:
      return elements;
    case ElementFormat::cached:
      return cache_bytes(cache, elements);
  }
  throw std::logic_error("bytes_of: no such format");
}

std::int64_t BufferDeclaration::bytes(const Extents& extents) const {
  const std::int64_t all = bytes_of(layers.size() * elements(extents));
  return (all + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

const BufferDeclaration* find_buffer(std::span<const BufferDeclaration> buffers, BufferRef name) {
  const auto found = std::ranges::find(buffers, name, &BufferDeclaration::name);
  return found == buffers.end() ? nullptr : &*found;
}

}  // namespace tandem::model
