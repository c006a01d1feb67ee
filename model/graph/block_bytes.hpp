#pragma once

// The bytes of a share's weights by layer and block, with equal layers counted once.

#include <array>
#include <cstdint>
#include <vector>

#include "model/transformer/layer_runs.hpp"
#include "model/transformer/transformer.hpp"
#include "model/transformer/weight_format.hpp"

namespace tandem::model {

// Returns Transformer::attention_bytes and ffn_bytes of fixed heads and columns, layer by layer.
// Layers in the same formats, with experts or without, have the same bytes. Searches for shares ask
// for the bytes of all layers a million times, and a format's look-up is most of the cost.
class BlockBytes {
 public:
  // `transformer` outlives it.
  BlockBytes(const Transformer& transformer, const LayerRuns& layers, Range heads, Range columns);

  // Of one of the layers.
  [[nodiscard]] std::int64_t attention(std::int32_t layer) const { return of(layer).attention; }
  [[nodiscard]] std::int64_t ffn(std::int32_t layer) const { return of(layer).ffn; }
  // Of all of them.
  [[nodiscard]] std::int64_t total() const { return total_; }

 private:
  struct Kind {
    std::array<WeightFormat, kWeightMatrices.size()> formats{};
    bool has_experts = false;
    std::int64_t attention = 0;
    std::int64_t ffn = 0;
  };
  [[nodiscard]] const Kind& of(std::int32_t layer) const {
    return kinds_[kind_[static_cast<std::size_t>(layer)]];
  }

  std::vector<Kind> kinds_{};
  std::vector<std::size_t> kind_{};  // by layer
  std::int64_t total_ = 0;
};

}  // namespace tandem::model
