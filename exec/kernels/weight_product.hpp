#pragma once

// Products with weight matrices in any format, [out, in] row-major. Single-threaded: the caller
// splits the outputs among threads. Of f32 weights they are those of exec/kernels/product.hpp.

#include <cstddef>
#include <cstdint>

#include "model/weight_format.hpp"

namespace tandem::exec {

// y[t, o] = sum over k of x[t, k] w[o, k], where w are the numbers that exec/weights/block_codec
// decodes. Weights must be finite. Of formats that multiply integers, x are the numbers in 8 bits
// that exec/kernels/integer_product.hpp says, which also has the order of addition: such a product
// is the same bits on every machine and beside any other tokens.
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

// Up to kFewRows tokens read weights as they are; block formats that do not multiply integers
// unpack tiles of rows that a cache holds. More tokens have the sum of each output and token over k
// in order, by pieces of the depth whose sums are added in order, of any format that does not
// multiply integers. The result of one output does not depend on the other outputs of the call, so
// it is the same however outputs are split. Nothing is read beyond the last block.
void product(const WeightProduct& p);

// Parts of it: of weights of 16 bits up to kFewRows tokens, and of f32 one,
void stored_product(const WeightProduct& p);
// more than kFewRows of formats that do not multiply integers,
void many_row_product(const WeightProduct& p);
// and of all but f32 and those that do `count` weights of a row as f32.
void unpack(model::WeightFormat format, const std::byte* row, std::int64_t count, float* out);
// which is this of block formats.
void unpack_blocks(model::WeightFormat format, const std::byte* row, std::int64_t count,
                   float* out);

}  // namespace tandem::exec
