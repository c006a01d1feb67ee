// Eigen's product of large square matrices and plain reads of memory, compiled for this machine's
// instruction set; a file of its own because of those options.

#include "bench/exec_kernels_reference.hpp"

// Another name for what is compiled with these options: the linker would take either this or the
// executor's copy of an inline function for both.
#define Eigen EigenOfThisMachine
#include <Eigen/Core>

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

namespace {

// S streams at once and nothing else. Integers, so that the compiler may vectorise the sums.
template <int S>
std::uint64_t read_streams(const std::uint64_t* memory, std::size_t count) {
  std::uint64_t sums[S] = {};
  const std::size_t stream = count / S;
  for (std::size_t i = 0; i < stream; ++i) {
    for (int s = 0; s < S; ++s) sums[s] += memory[static_cast<std::size_t>(s) * stream + i];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return sum;
}

}  // namespace

std::span<const Read> plain_reads() {
  static constexpr Read kReads[] = {read_streams<1>, read_streams<2>, read_streams<4>,
                                    read_streams<8>};
  return kReads;
}

}  // namespace tandem::bench
