#pragma once

// What the kernels' speed is compared with, in the same run.

#include <memory>

namespace tandem::bench {

// C = A B by Eigen, column-major as Eigen prefers, one range of columns a thread.
class LargeProduct {
 public:
  explicit LargeProduct(int size);
  ~LargeProduct();
  [[nodiscard]] double flops() const { return flops_; }
  void run(int part, int parts);

 private:
  struct Matrices;
  std::unique_ptr<Matrices> matrices_;
  double flops_;
};

}  // namespace tandem::bench
