// Compiled once for each instruction set, with TANDEM_PRODUCT naming the function and Eigen renamed
// by the build. Only raw pointers cross its boundary.

#include <Eigen/Core>

#include "exec/kernels/many_row_product.hpp"

namespace tandem::exec {

void TANDEM_PRODUCT(const Product& p) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Stride = Eigen::OuterStride<>;
  const Eigen::Map<const Matrix, Eigen::Unaligned, Stride> x(p.x, p.tokens, p.depth,
                                                             Stride(p.x_stride));
  const Eigen::Map<const Matrix, Eigen::Unaligned, Stride> w(p.w, p.outputs, p.depth,
                                                             Stride(p.w_stride));
  Eigen::Map<Matrix, Eigen::Unaligned, Stride> y(p.y, p.tokens, p.outputs, Stride(p.y_stride));
  y.noalias() = x * w.transpose();
}

}  // namespace tandem::exec
