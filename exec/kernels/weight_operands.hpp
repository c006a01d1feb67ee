#pragma once

#include <cstddef>
#include <cstdint>

#include "model/transformer/weight_format.hpp"

namespace tandem::exec {

// y[t, o] = sum over k of x[t, k] w[o, k], where w are the numbers decoded by
// exec/weights/formats/block_codec. Weights must be finite. For formats that multiply integers, x
// are rounded to 8 bits as documented in exec/kernels/integer_product.hpp, which also fixes the
// order of addition of the tuned kernels: their product is the same bits on every machine and with
// any other tokens.
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
  // Block formats: number of inputs at the begin and the end of the depth that are zeros and not
  // part of x.
  std::int64_t before = 0;
  std::int64_t after = 0;

  // Returns the product of outputs [begin, end).
  [[nodiscard]] WeightProduct slice(std::int64_t begin, std::int64_t end) const {
    WeightProduct p = *this;
    p.w += begin * w_stride;
    p.y += begin;
    p.outputs = end - begin;
    return p;
  }
};

}  // namespace tandem::exec
