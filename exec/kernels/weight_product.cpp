#include "exec/kernels/weight_product.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "exec/kernels/integer_product.hpp"
#include "exec/kernels/product.hpp"
#include "exec/kernels/rowwise.hpp"
#include "model/error.hpp"

namespace tandem::exec {
namespace {

// Floats of a tile of weights: a quarter of a MiB, as second-level caches hold it beside inputs.
constexpr std::int64_t kTile = std::int64_t{64} * 1024;

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
  alignas(64) std::array<float, kTile> tile;  // written before it is read
  // Rows begin with cache lines, as those of most models do; groups of 6 rows are walked together.
  constexpr std::int64_t kLine = 64 / sizeof(float);
  constexpr std::int64_t kGroup = 6;
  const std::int64_t stride = (p.depth + kLine - 1) / kLine * kLine;
  const std::int64_t fit = kTile / stride;
  const std::int64_t rows = fit > kGroup ? fit / kGroup * kGroup : fit;
  for (std::int64_t o = 0; o < p.outputs; o += rows) {
    const std::int64_t count = std::min(rows, p.outputs - o);
    for (std::int64_t row = 0; row < count; ++row)
      unpack(p.format, p.w + (o + row) * p.w_stride, p.depth, tile.data() + row * stride);
    few_row_product({.x = p.x,
                     .x_stride = p.x_stride,
                     .w = tile.data(),
                     .w_stride = stride,
                     .y = p.y + o,
                     .y_stride = p.y_stride,
                     .tokens = p.tokens,
                     .outputs = count,
                     .depth = p.depth});
  }
}

// Rows longer than a tile: some tokens at a time.
void decoded_product(const WeightProduct& p) {
  for (std::int64_t first = 0; first < p.tokens; first += kDecodedRows) {
    WeightProduct some = p;
    some.x += first * p.x_stride;
    some.y += first * p.y_stride;
    some.tokens = std::min(p.tokens - first, kDecodedRows);
    stored_product(some);
  }
}

// Calls body(multiply, product of some tokens) with inputs in 8 bits: as many tokens
// at once as a second-level cache holds.
template <class Body>
void for_integers(const WeightProduct& p, const Body& body) {
  constexpr std::int64_t kBytes = std::int64_t{512} * 1024;
  const std::int64_t blocks = p.depth / kInputBlock;
  require(blocks * kInputBlock == p.depth, "product: rows of whole blocks");
  const std::int64_t of_token = IntegerInputs::bytes(1, blocks);
  const std::int64_t fit = kBytes / of_token / 8 * 8;
  const std::int64_t at_once = std::min(p.tokens, std::max<std::int64_t>(fit, 8));
  alignas(64) std::array<std::byte, kBytes> near;  // written before it is read
  std::vector<std::byte> far;
  std::byte* memory = near.data();
  if (at_once * of_token > kBytes) {
    constexpr std::size_t kLine = 64;
    far.resize(static_cast<std::size_t>(at_once * of_token) + kLine);
    memory = far.data() + (kLine - reinterpret_cast<std::uintptr_t>(far.data()) % kLine);
  }
  const IntegerKernels& kernels = integer_kernels().front();
  for (std::int64_t first = 0; first < p.tokens; first += at_once) {
    const std::int64_t tokens = std::min(at_once, p.tokens - first);
    const IntegerInputs x = IntegerInputs::at(memory, tokens, blocks);
    for (std::int64_t t = 0; t < tokens; ++t)
      kernels.quantise(p.x + (first + t) * p.x_stride, blocks, x.token(t));
    body(kernels.multiply, IntegerProduct{.x = x,
                                          .w = p.w,
                                          .w_stride = p.w_stride,
                                          .format = p.format,
                                          .y = p.y + first * p.y_stride,
                                          .y_stride = p.y_stride,
                                          .tokens = tokens,
                                          .outputs = p.outputs,
                                          .blocks = blocks});
  }
}

// The gated product in turns of this many outputs, so that each of the two matrices is read in long
// stretches.
constexpr std::int64_t kTurn = 96;

}  // namespace

void product(const WeightProduct& p) {
  if (p.format == model::WeightFormat::f32) return product(of_floats(p));
  if (model::multiplies_integers(p.format)) {
    return for_integers(p, [](auto multiply, const IntegerProduct& some) { multiply(some); });
  }
  if (p.tokens > kDecodedRows && p.depth <= kTile) return tiled_product(p);
  decoded_product(p);
}

void gated_product(const WeightProduct& p, const std::byte* up) {
  if (p.format == model::WeightFormat::f32)
    return few_row_gated_product(of_floats(p), as_floats(up));
  std::array<float, kTurn * kGatedRows> ups;
  if (model::multiplies_integers(p.format)) {
    return for_integers(p, [&](auto multiply, IntegerProduct all) {
      for (std::int64_t o = 0; o < p.outputs; o += kTurn) {
        IntegerProduct gate = all;
        gate.w += o * p.w_stride;
        gate.y += o;
        gate.outputs = std::min(kTurn, p.outputs - o);
        IntegerProduct other = gate;
        other.w = up + o * p.w_stride;
        other.y = ups.data();
        other.y_stride = kTurn;
        multiply(gate);
        multiply(other);
        for (std::int64_t t = 0; t < gate.tokens; ++t)
          gate_with(ups.data() + t * kTurn, gate.outputs, gate.y + t * gate.y_stride);
      }
    });
  }
  for (std::int64_t o = 0; o < p.outputs; o += kTurn) {
    const WeightProduct gate = p.slice(o, std::min(o + kTurn, p.outputs));
    WeightProduct other = gate;
    other.w = up + o * p.w_stride;
    other.y = ups.data();
    other.y_stride = kTurn;
    product(gate);
    product(other);
    for (std::int64_t t = 0; t < p.tokens; ++t)
      gate_with(ups.data() + t * kTurn, gate.outputs, gate.y + t * gate.y_stride);
  }
}

}  // namespace tandem::exec
