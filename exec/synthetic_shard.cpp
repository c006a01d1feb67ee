#include "exec/synthetic_shard.hpp"

#include "exec/weights/layout.hpp"

namespace tandem::exec {

Shard synthetic_shard(const model::Transformer& transformer, const model::Share& share,
                      const std::function<float(const WeightElement&)>& value) {
  return Shard::filled(transformer, share, [&](const LayoutBlock& block, std::span<float> out) {
    for (const TensorSlice& slice : block.slices) {
      float* to = out.data() + slice.offset / sizeof(float);
      if (slice.shape.size() == 1) {  // a vector's elements are its outputs
        for (std::int32_t i = slice.columns.begin; i < slice.columns.end; ++i)
          *to++ = value({slice.weight, block.layer, i - slice.first, 0});
        continue;
      }
      for (std::int32_t row = slice.rows.begin; row < slice.rows.end; ++row) {
        for (std::int32_t column = slice.columns.begin; column < slice.columns.end; ++column)
          *to++ = value({slice.weight, block.layer, row - slice.first, column});
      }
    }
  });
}

}  // namespace tandem::exec
