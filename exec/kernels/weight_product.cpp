#include "exec/kernels/weight_product.hpp"

#include <algorithm>
#include <array>

#include "exec/kernels/product.hpp"
#include "exec/kernels/rowwise.hpp"

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

}  // namespace

void product(const WeightProduct& p) {
  if (p.format == model::WeightFormat::f32) return product(of_floats(p));
  if (p.tokens > kDecodedRows && p.depth <= kTile) return tiled_product(p);
  decoded_product(p);
}

void gated_product(const WeightProduct& p, const std::byte* up) {
  if (p.format == model::WeightFormat::f32)
    return few_row_gated_product(of_floats(p), as_floats(up));
  // Turns of this many outputs, so that each of the two matrices is read in long stretches.
  constexpr std::int64_t kTurn = 96;
  std::array<float, kTurn * kGatedRows> ups;
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
