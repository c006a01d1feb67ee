// Products with weight matrices: projections of queries, keys, values and attention's output, the
// FFN's matrices, the LM head.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "exec/kernels/integer_product.hpp"
#include "exec/kernels/reference/eigen_kernels.hpp"
#include "exec/weights/formats/block_codec.hpp"

namespace tandem::exec::reference {
namespace {

// So many tokens at a time have a copy of their inputs: memory stays within what a thread of the
// tuned kernels works in.
constexpr std::int64_t kTokens = 16;

// x = q d, the inputs as formats that multiply integers have them (integer_product.hpp), for each
// block of 32:
//   d = max |x| / 127    q = round(x * (127 / max |x|)), ties to even
// Blocks below 2^-100 become zeros, blocks with an infinity or a NaN become NaN.
//   x: [tokens, depth], depth whole blocks
void round_to_8_bits(Matrix& x) {
  constexpr float kLeast = 0x1p-100F;
  for (Eigen::Index t = 0; t < x.rows(); ++t) {
    for (Eigen::Index k = 0; k < x.cols(); k += kInputBlock) {
      auto block = x.row(t).segment(k, kInputBlock).array();
      if (!block.isFinite().all()) {
        block.setConstant(std::numeric_limits<float>::quiet_NaN());
        continue;
      }
      const float most = block.abs().maxCoeff();
      if (most < kLeast) {
        block.setZero();
      } else {
        block = (block * (127.0F / most)).rint() * (most / 127.0F);
      }
    }
  }
}

// The inputs of tokens [first, first + count), [count, depth]: zeros where `p` has none, in 8 bits
// if the format multiplies integers.
Matrix inputs(const WeightProduct& p, std::int64_t first, std::int64_t count) {
  const std::int64_t given = p.depth - p.before - p.after;
  Matrix x = Matrix::Zero(count, p.depth);
  x.middleCols(p.before, given) =
      ConstRows(p.x + first * p.x_stride, count, given, Eigen::OuterStride<>(p.x_stride));
  if (model::multiplies_integers(p.format)) round_to_8_bits(x);
  return x;
}

}  // namespace

// Y = X W^T, W decoded to f32 row by row.
//   X: [tokens, depth]    W: [outputs, depth], in p.format    Y: [tokens, outputs]
// Each result is a sum of its own: the same bits whatever other tokens and outputs the call has.
void product(const WeightProduct& p) {
  const auto row_bytes = static_cast<std::size_t>(model::row_bytes(p.format, p.depth));
  Vector w(p.depth);
  for (std::int64_t first = 0; first < p.tokens; first += kTokens) {
    const std::int64_t count = std::min(kTokens, p.tokens - first);
    const Matrix x = inputs(p, first, count);
    Rows y(p.y + first * p.y_stride, count, p.outputs, Eigen::OuterStride<>(p.y_stride));
    for (std::int64_t o = 0; o < p.outputs; ++o) {
      decode(p.format, {p.w + o * p.w_stride, row_bytes},
             {w.data(), static_cast<std::size_t>(p.depth)});
      y.col(o) = x.lazyProduct(w.transpose());
    }
  }
}

}  // namespace tandem::exec::reference
