#pragma once

// Products of few vectors with weight matrices as Hugging Face stores them, [out, in] row-major.
// Single-threaded: the caller splits the outputs among threads. Strides are in floats.

#include <cstdint>

namespace tandem::exec {

// y[t, o] = sum over k of x[t, k] w[o, k]
struct Product {
  const float* x = nullptr;  // [tokens, depth]
  std::int64_t x_stride = 0;
  const float* w = nullptr;  // [outputs, depth]
  std::int64_t w_stride = 0;
  float* y = nullptr;  // [tokens, outputs]
  std::int64_t y_stride = 0;
  std::int64_t tokens = 0;
  std::int64_t outputs = 0;
  std::int64_t depth = 0;

  // Returns the product of outputs [begin, end).
  [[nodiscard]] Product slice(std::int64_t begin, std::int64_t end) const {
    Product p = *this;
    p.w += begin * w_stride;
    p.y += begin;
    p.outputs = end - begin;
    return p;
  }
};

// For up to kFewRows tokens: streams the weights from memory once for all of them, without
// repacking. The result of one output does not depend on the other outputs of the call, so it is
// the same however outputs are split.
void few_row_product(const Product& p);
inline constexpr std::int64_t kFewRows = 8;

}  // namespace tandem::exec
