#include "exec/profiling/synthetic_shard.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "exec/weights/formats/block_codec.hpp"
#include "exec/weights/source/layout.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {

Shard synthetic_shard(const model::Transformer& transformer, const model::Share& share,
                      const std::function<float(const WeightElement&)>& value,
                      std::optional<std::int32_t> period) {
  require(period.value_or(1) > 0, "a period of rows is positive");
  std::vector<float> values;
  return Shard::filled(transformer, share, [&](const LayoutBlock& block, std::span<std::byte> out) {
    for (const TensorSlice& slice : block.slices) {
      const bool is_matrix = slice.shape.size() > 1;
      const std::int32_t encoded =
          is_matrix && period ? std::min(*period, slice.rows.size()) : slice.rows.size();
      values.clear();
      values.reserve(static_cast<std::size_t>(encoded) *
                     static_cast<std::size_t>(slice.columns.size()));
      if (!is_matrix) {  // a vector's elements are its outputs
        for (std::int32_t i = slice.columns.begin; i < slice.columns.end; ++i)
          values.push_back(value({slice.weight, block.layer, i - slice.first, 0}));
      } else {
        for (std::int32_t row = slice.rows.begin; row < slice.rows.begin + encoded; ++row) {
          for (std::int32_t column = slice.columns.begin; column < slice.columns.end; ++column)
            values.push_back(value({slice.weight, block.layer, row - slice.first, column}));
        }
      }
      const std::span<std::byte> bytes = out.subspan(slice.offset, slice.bytes());
      std::size_t made = static_cast<std::size_t>(encoded) * slice.row_bytes();
      encode(slice.format, values, bytes.first(made));
      const std::size_t once = made;
      for (; made < bytes.size(); made += once)
        std::memcpy(bytes.data() + made, bytes.data(), std::min(once, bytes.size() - made));
    }
  });
}

}  // namespace tandem::exec
