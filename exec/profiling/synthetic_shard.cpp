#include "exec/profiling/synthetic_shard.hpp"

#include <vector>

#include "exec/weights/formats/block_codec.hpp"
#include "exec/weights/source/layout.hpp"

namespace tandem::exec {

Shard synthetic_shard(const model::Transformer& transformer, const model::Share& share,
                      const std::function<float(const WeightElement&)>& value) {
  std::vector<float> values;
  return Shard::filled(transformer, share, [&](const LayoutBlock& block, std::span<std::byte> out) {
    for (const TensorSlice& slice : block.slices) {
      values.clear();
      values.reserve(slice.elements());
      if (slice.shape.size() == 1) {  // a vector's elements are its outputs
        for (std::int32_t i = slice.columns.begin; i < slice.columns.end; ++i)
          values.push_back(value({slice.weight, block.layer, i - slice.first, 0}));
      } else {
        for (std::int32_t row = slice.rows.begin; row < slice.rows.end; ++row) {
          for (std::int32_t column = slice.columns.begin; column < slice.columns.end; ++column)
            values.push_back(value({slice.weight, block.layer, row - slice.first, column}));
        }
      }
      encode(slice.format, values, out.subspan(slice.offset, slice.bytes()));
    }
  });
}

}  // namespace tandem::exec
