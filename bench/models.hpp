#pragma once

// Geometries that several benchmarks take.

#include <cstdint>

#include "model/transformer/transformer.hpp"

namespace tandem::bench {

// Of Llama 2-70B's sizes, with `layers` layers.
inline model::Transformer llama2_70b(std::int64_t layers = 80) {
  return {.name = "llama-2-70b",
          .layers = layers,
          .hidden = 8192,
          .heads = 64,
          .kv_heads = 8,
          .head_dim = 128,
          .intermediate = 28672,
          .vocab = 32000,
          .max_context = 4096};
}

}  // namespace tandem::bench
