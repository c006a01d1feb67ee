#include "exec/kernels/weight_product.hpp"

#include <algorithm>
#include <vector>

#include "exec/kernels/integer_choice.hpp"
#include "exec/kernels/integer_product.hpp"
#include "exec/kernels/product.hpp"
#include "exec/kernels/scratch.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

// Floats of a tile of weights: a quarter of a MiB, as second-level caches hold it beside inputs.
constexpr auto kTile = static_cast<std::int64_t>(KernelScratch::kTileFloats);
// Of a tile that few tokens use once each: 32 KiB, which the first-level cache still has then.
constexpr std::int64_t kSmallTile = std::int64_t{8} * 1024;
constexpr std::int64_t kFewTokens = 2;

const float* as_floats(const std::byte* weights) { return reinterpret_cast<const float*>(weights); }

Product of_floats(const WeightProduct& p) {
  return {.x = p.x,
          .x_stride = p.x_stride,
          .w = as_floats(p.w),
          .w_stride = p.w_stride / static_cast<std::int64_t>(sizeof(float)),
          .y = p.y,
          .y_stride = p.y_stride,
          .tokens = p.tokens,
          .outputs = p.outputs,
          .depth = p.depth};
}

// Rows are unpacked some at a time, and used for all tokens while they are near.
void tiled_product(const WeightProduct& p) {
  // Rows begin with cache lines, as those of most models do; groups of 6 rows are walked together.
  constexpr std::int64_t kLine = 64 / sizeof(float);
  constexpr std::int64_t kGroup = 6;
  const std::int64_t stride = (p.depth + kLine - 1) / kLine * kLine;
  const std::int64_t size = p.tokens <= kFewTokens ? kSmallTile : kTile;
  const std::int64_t fit = std::max<std::int64_t>(size / stride, 1);
  std::vector<float> longer(stride > kTile ? static_cast<std::size_t>(stride) : 0);
  float* const tile = longer.empty() ? kernel_scratch().tile : longer.data();
  const std::int64_t rows = fit > kGroup ? fit / kGroup * kGroup : fit;
  for (std::int64_t o = 0; o < p.outputs; o += rows) {
    const std::int64_t count = std::min(rows, p.outputs - o);
    for (std::int64_t row = 0; row < count; ++row)
      unpack(p.format, p.w + (o + row) * p.w_stride, p.depth, tile + row * stride);
    few_row_product({.x = p.x,
                     .x_stride = p.x_stride,
                     .w = tile + p.before,
                     .w_stride = stride,
                     .y = p.y + o,
                     .y_stride = p.y_stride,
                     .tokens = p.tokens,
                     .outputs = count,
                     .depth = p.depth - p.before - p.after});
  }
}

// With inputs in 8 bits, of as many tokens at once as a second-level cache holds.
void integer_product(const WeightProduct& p) {
  constexpr auto kBytes = static_cast<std::int64_t>(KernelScratch::kInputBytes);
  const std::int64_t blocks = p.depth / kInputBlock;
  require(blocks * kInputBlock == p.depth, "product: rows of whole blocks");
  const std::int64_t of_token = IntegerInputs::bytes(1, blocks);
  const std::int64_t fit = kBytes / of_token / 8 * 8;
  const std::int64_t at_once = std::min(p.tokens, std::max<std::int64_t>(fit, 8));
  std::vector<float> padded;  // of inputs that are not all there: zeros around them
  if (p.before + p.after > 0) padded.resize(static_cast<std::size_t>(p.depth));
  std::vector<std::byte> far;
  std::byte* memory = kernel_scratch().inputs;
  if (at_once * of_token > kBytes) {
    constexpr std::size_t kLine = 64;
    far.resize(static_cast<std::size_t>(at_once * of_token) + kLine);
    memory = far.data() + (kLine - reinterpret_cast<std::uintptr_t>(far.data()) % kLine);
  }
  const IntegerKernels& kernels = chosen_kernels(p.format, p.tokens);
  for (std::int64_t first = 0; first < p.tokens; first += at_once) {
    IntegerProduct some{p, {}, blocks};
    some.y += first * p.y_stride;
    some.tokens = std::min(at_once, p.tokens - first);
    some.in = IntegerInputs::at(memory, some.tokens, blocks);
    for (std::int64_t t = 0; t < some.tokens; ++t) {
      const float* x = p.x + (first + t) * p.x_stride;
      if (!padded.empty()) {
        std::copy_n(x, p.depth - p.before - p.after, padded.begin() + p.before);
        x = padded.data();
      }
      kernels.quantise(x, blocks, some.in.token(t));
    }
    kernels.multiply(some);
  }
}

}  // namespace

void product(const WeightProduct& p) {
  if (model::multiplies_integers(p.format)) return integer_product(p);
  if (p.tokens > kFewRows) return many_row_product(p);
  if (p.format == model::WeightFormat::f32) return few_row_product(of_floats(p));
  if (model::block_of(p.format).elements > 1) return tiled_product(p);
  stored_product(p);
}

}  // namespace tandem::exec
