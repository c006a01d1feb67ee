#pragma once

#include <cstdint>
#include <vector>

#include "model/graph/memory.hpp"

namespace tandem::test {

// What a device with `share` has, and so many receive buffers.
inline std::vector<model::BufferDeclaration> buffers_of(const model::Transformer& transformer,
                                                        const model::Share& share,
                                                        std::int16_t receive_slots) {
  std::vector<model::BufferDeclaration> buffers = model::share_buffers(transformer, share);
  for (std::int16_t slot = 0; slot < receive_slots; ++slot) {
    buffers.push_back({.name = {model::BufferKind::receive, slot}, .columns = transformer.hidden});
  }
  return buffers;
}

// The bytes of that, in one sequence.
inline model::MemoryUse memory_of(const model::Transformer& transformer, const model::Share& share,
                                  std::int64_t rows, std::int64_t positions,
                                  std::int16_t receive_slots = 0) {
  return model::memory_use({.buffers = buffers_of(transformer, share, receive_slots)},
                           {.rows = rows, .positions = positions, .sequences = 1, .sampled = 1});
}

}  // namespace tandem::test
