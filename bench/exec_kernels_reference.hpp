#pragma once

// What the kernels' speed is compared with, in the same run.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

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

// Reads `count` words and returns a sum that depends on all of them; 1, 2, 4 and 8 streams.
using Read = std::uint64_t (*)(const std::uint64_t* memory, std::size_t count);
[[nodiscard]] std::span<const Read> plain_reads();

}  // namespace tandem::bench
