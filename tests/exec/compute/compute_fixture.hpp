#pragma once

// A small model and its parts, for the tests of Compute.

#include <span>
#include <vector>

#include "exec/compute/compute.hpp"
#include "exec/profiling/synthetic_shard.hpp"
#include "tests/exec/kernels/kernel_test_support.hpp"

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

// One step of a device that has the whole model; returns the logits of each segment's last row.
inline std::vector<std::vector<float>> whole_step(exec::Compute& device, const model::Batch& batch,
                                                  std::span<const std::int32_t> ids) {
  const model::Transformer& t = device.transformer();
  const auto all = [](std::int64_t size) {
    return model::Range{0, static_cast<std::int32_t>(size)};
  };
  const auto run = [&](model::TaskKind kind, std::int32_t layer, model::Range columns,
                       model::BufferRef input, model::BufferRef output,
                       model::WeightBlock block = model::WeightBlock::none) {
    device.execute(batch, {.kind = kind,
                           .block = block,
                           .layer = layer,
                           .rows = {0, batch.rows()},
                           .columns = columns,
                           .input = input,
                           .output = output});
  };
  using enum model::TaskKind;
  const model::Range hidden = all(t.hidden);
  device.begin(batch);
  device.set_tokens(ids);
  run(embed, -1, {}, {}, kHidden);
  for (std::int32_t layer = 0; layer < t.layers; ++layer) {
    run(norm, layer, hidden, kHidden, kNormed, model::WeightBlock::attention);
    run(project_qkv, layer, all(t.heads), kNormed, kQuery);
    run(attend, layer, all(t.heads), kQuery, kAttention);
    run(project_out, layer, all(t.heads), kAttention, kPartial);
    run(add, layer, hidden, kPartial, kHidden);
    run(norm, layer, hidden, kHidden, kNormed, model::WeightBlock::ffn);
    run(ffn_up, layer, all(t.intermediate), kNormed, kActivation);
    run(ffn_down, layer, all(t.intermediate), kActivation, kPartial);
    run(add, layer, hidden, kPartial, kHidden);
  }
  run(norm, -1, hidden, kHidden, kNormed, model::WeightBlock::head);
  std::vector<std::vector<float>> logits;
  std::int32_t end = 0;
  for (const model::Segment& segment : batch.segments) {
    end += segment.rows;
    device.execute(batch, {.kind = lm_head,
                           .rows = {end - 1, end},
                           .columns = all(t.vocab),
                           .input = kNormed,
                           .output = kLogits});
    logits.emplace_back(device.logits().begin(), device.logits().end());
  }
  return logits;
}

}  // namespace tandem::testing
