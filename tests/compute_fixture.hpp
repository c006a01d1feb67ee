#pragma once

// A small model and its parts, for the tests of Compute.

#include "exec/compute.hpp"
#include "exec/synthetic_shard.hpp"
#include "kernel_test_support.hpp"

namespace tandem::testing {

inline constexpr model::BufferRef kHidden{model::BufferKind::hidden};
inline constexpr model::BufferRef kNormed{model::BufferKind::normed};
inline constexpr model::BufferRef kQuery{model::BufferKind::query};
inline constexpr model::BufferRef kAttention{model::BufferKind::attention};
inline constexpr model::BufferRef kActivation{model::BufferKind::activation};
inline constexpr model::BufferRef kPartial{model::BufferKind::partial};
inline constexpr model::BufferRef kLogits{model::BufferKind::logits};

// Odd sizes, groups of 3.
inline model::Transformer tiny() {
  model::Transformer t;
  t.name = "tiny";
  t.layers = 2;
  t.hidden = 44;
  t.heads = 6;
  t.kv_heads = 2;
  t.head_dim = 10;
  t.intermediate = 67;
  t.vocab = 53;
  t.max_context = 128;
  return t;
}

inline model::Share whole(const model::Transformer& t) {
  return {{0, static_cast<std::int32_t>(t.layers)},
          {0, static_cast<std::int32_t>(t.heads)},
          {0, static_cast<std::int32_t>(t.intermediate)},
          true,
          true};
}

inline exec::Compute make(const model::Transformer& t, const model::Share& share,
                          exec::ComputeLimits limits = {64, 128}) {
  return exec::Compute(t, exec::synthetic_shard(t, share, RandomWeights{}), limits);
}

}  // namespace tandem::testing
