// Eigen's own matrix product on large square matrices, for this machine's instruction set: what
// prompts are compared with. A file of its own because it is compiled with other options.

#include <Eigen/Core>

#include "bench/exec_kernels_reference.hpp"

namespace tandem::bench {

struct LargeProduct::Matrices {
  Eigen::MatrixXf a, b, c;
};

LargeProduct::LargeProduct(int size)
    : matrices_(std::make_unique<Matrices>()), flops_(2.0 * size * size * size) {
  matrices_->a = Eigen::MatrixXf::Random(size, size);
  matrices_->b = Eigen::MatrixXf::Random(size, size);
  matrices_->c = Eigen::MatrixXf::Zero(size, size);
}
LargeProduct::~LargeProduct() = default;

void LargeProduct::run(int part, int parts) {
  const Eigen::Index columns = matrices_->c.cols();
  const Eigen::Index begin = columns * part / parts;
  const Eigen::Index end = columns * (part + 1) / parts;
  matrices_->c.middleCols(begin, end - begin).noalias() =
      matrices_->a * matrices_->b.middleCols(begin, end - begin);
}

}  // namespace tandem::bench
