#pragma once

// Products of weights in block formats, the same wherever they are made: plain code tells their
// results on this machine, and vector kernels have to give these bits on an emulated one.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "exec/kernels/integer_product.hpp"
#include "model/transformer/weight_format.hpp"

namespace tandem::bare {

using exec::IntegerInputs;
using model::WeightFormat;

struct Size {
  std::int64_t tokens;
  std::int64_t outputs;
  std::int64_t blocks;  // of 256 numbers
};
// Both sides of where kernels change their ways, rows of several pieces, and rows too long for
// some.
inline constexpr Size kSizes[] = {
    {1, 9, 3},   {2, 7, 2},   {3, 4, 1},   {4, 21, 2},  {5, 13, 4},  {6, 12, 1},  {7, 25, 2},
    {8, 6, 3},   {9, 11, 5},  {15, 17, 1}, {16, 16, 4}, {17, 18, 2}, {24, 5, 9},  {31, 30, 1},
    {32, 24, 2}, {33, 1, 3},  {48, 13, 1}, {63, 3, 2},  {64, 29, 1}, {65, 12, 2}, {100, 7, 3},
    {193, 8, 1}, {200, 2, 2}, {6, 3, 129}, {33, 2, 61}, {5, 2, 260},
};
inline constexpr WeightFormat kFormats[] = {WeightFormat::q8_0, WeightFormat::q4_0,
                                            WeightFormat::q4_k, WeightFormat::q5_k,
                                            WeightFormat::q6_k};
inline constexpr int kDraws = 3;  // of each size's numbers
inline constexpr std::size_t kProducts = std::size(kSizes) * std::size(kFormats) * kDraws;
inline constexpr std::int64_t kMostNumbers = std::int64_t{1} << 19;  // of inputs, of results
inline constexpr std::int64_t kMostWeightBytes = std::int64_t{1} << 19;

// Numbers without end (D. Knuth's MMIX generator).
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed) {}
  std::uint32_t bits() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>(state_ >> 33U);
  }
  std::int32_t below(std::int32_t end) {
    return static_cast<std::int32_t>(bits() % static_cast<std::uint32_t>(end));
  }

 private:
  std::uint64_t state_;
};

// Product `index` of kProducts: its numbers, in memory of the caller's.
struct Product {
  WeightFormat format;
  Size size;
  std::int64_t depth;
  std::int64_t stride;  // bytes from row to row

  Product(std::size_t index, float* x, std::byte* w) {
    Draw draw(index + 1);
    const auto kind = static_cast<int>(index % kDraws);
    size = kSizes[index / kDraws % std::size(kSizes)];
    format = kFormats[index / kDraws / std::size(kSizes)];
    const model::FormatBlock block = model::block_of(format);
    depth = 256 * size.blocks;
    // Rows of no multiple of four blocks, where a format has such.
    if (block.elements == 32 && kind == 1) depth -= 32 * draw.below(8);
    stride = depth / block.elements * block.bytes + 2 * draw.below(4);
    for (std::int64_t i = 0; i < size.outputs * stride; ++i)
      w[i] = static_cast<std::byte>(kind == 2 ? (draw.below(2) != 0 ? 0x80 : 0x7f) : draw.bits());
    for (std::int64_t o = 0; o < size.outputs; ++o) {
      for (std::int64_t b = 0; b < depth / block.elements; ++b) {
        std::byte* const at = w + o * stride + b * block.bytes;
        store_half(at + (format == WeightFormat::q6_k ? 208 : 0), draw);
        if (exec::has_leasts(format)) store_half(at + 2, draw);
      }
    }
    for (std::int64_t i = 0; i < size.tokens * depth; ++i) {
      x[i] = kind == 2 ? (draw.below(2) != 0 ? 1.0F : -1.0F)
                       : static_cast<float>(draw.below(4001) - 2000) / 512.0F;
    }
    if (kind == 1) {
      std::memset(x, 0, 32 * sizeof(float));               // a block of zeros
      x[size.tokens * depth - 1] = __builtin_huge_valf();  // and one of no numbers
    }
  }

  // Its results by `kernels`, and a digest of their bits; of what is no number, that it is none.
  [[nodiscard]] std::uint64_t digest(const exec::IntegerKernels& kernels, const float* x,
                                     const std::byte* w, std::byte* inputs, float* y) const {
    const std::int64_t blocks = depth / exec::kInputBlock;
    const IntegerInputs in = IntegerInputs::at(inputs, size.tokens, blocks);
    for (std::int64_t t = 0; t < size.tokens; ++t)
      kernels.quantise(x + t * depth, blocks, in.token(t));
    exec::IntegerProduct product;
    product.w = w;
    product.w_stride = stride;
    product.format = format;
    product.y = y;
    product.y_stride = size.outputs;
    product.tokens = size.tokens;
    product.outputs = size.outputs;
    product.depth = depth;
    product.in = in;
    product.blocks = blocks;
    kernels.multiply(product);
    std::uint64_t digest = 14695981039346656037U;  // FNV-1a, by words
    for (std::int64_t i = 0; i < size.tokens * size.outputs; ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, y + i, sizeof bits);
      if ((bits & 0x7fffffffU) > 0x7f800000U) bits = 0x7fc00000U;
      digest = (digest ^ bits) * 1099511628211U;
    }
    return digest;
  }

 private:
  // Finite, of either sign, now and then 0 or denormal.
  static void store_half(std::byte* to, Draw& draw) {
    const int exponent = draw.below(16) == 0 ? 0 : 5 + draw.below(12);
    const std::uint32_t half = (draw.bits() & 0x83ffU) | static_cast<std::uint32_t>(exponent)
                                                             << 10U;
    to[0] = static_cast<std::byte>(half & 0xffU);
    to[1] = static_cast<std::byte>(half >> 8U);
  }
};

}  // namespace tandem::bare
