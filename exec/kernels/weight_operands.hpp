#pragma once

#include <cstddef>
#include <cstdint>

#include "model/transformer/weight_format.hpp"

namespace tandem::exec {

// y[t, o] = sum over k of x[t, k] w[o, k], where w are the numbers that
// exec/weights/formats/block_codec decodes. Weights must be finite. Of formats that multiply
// integers, x are the numbers in 8 bits that exec/kernels/integer_product.hpp says, which also has
// the order of addition of the tuned kernels: their product is the same bits on every machine and
// beside any other tokens.
struct WeightProduct {
  const float* x = nullptr;  // [tokens, depth]
  std::int64_t x_stride = 0;
  const std::byte* w = nullptr;  // [outputs, depth], rows of whole blocks
  std::int64_t w_stride = 0;     // bytes
  model::WeightFormat format = model::WeightFormat::f32;
  float* y = nullptr;  // [tokens, outputs]
  std::int64_t y_stride = 0;
  std::int64_t tokens = 0;
  std::int64_t outputs = 0;
  std::int64_t depth = 0;  // of a block format: whole blocks
  // Of a block format: how many of the depth's inputs, at its begin and end, are zeros that x does
  // not have.
  std::int64_t before = 0;
  std::int64_t after = 0;

  // The outputs [begin, end) of this product.
  [[nodiscard]] WeightProduct slice(std::int64_t begin, std::int64_t end) const {
    WeightProduct p = *this;
    p.w += begin * w_stride;
    p.y += begin;
    p.outputs = end - begin;
    return p;
  }
};

}  // namespace tandem::exec
