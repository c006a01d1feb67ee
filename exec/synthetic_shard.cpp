#include "exec/synthetic_shard.hpp"

#include "exec/weights/layout.hpp"

namespace tandem::exec {

Shard synthetic_shard(const model::Transformer& transformer, const model::Share& share,
                      const std::function<float(const WeightElement&)>& value) {
  return Shard::filled(transformer, share, [&](const LayoutBlock& block, std::span<float> out) {
    for (const TensorPart& part : block.parts) {
      float* to = out.data() + part.offset / sizeof(float);
      if (part.shape.size() == 1) {  // a vector's elements are its outputs
        for (std::int32_t i = part.columns.begin; i < part.columns.end; ++i)
          *to++ = value({part.weight, block.layer, i - part.first, 0});
        continue;
      }
      for (std::int32_t row = part.rows.begin; row < part.rows.end; ++row) {
        for (std::int32_t column = part.columns.begin; column < part.columns.end; ++column)
          *to++ = value({part.weight, block.layer, row - part.first, column});
      }
    }
  });
}

}  // namespace tandem::exec
