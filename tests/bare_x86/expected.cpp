// Prints what plain code makes of each product, for bare.cpp to include.

#include <cstdio>
#include <vector>

#include "tests/bare_x86/products.hpp"

int main() {
  using namespace tandem;
  std::vector<float> x(bare::kMostNumbers);
  std::vector<float> y(bare::kMostNumbers);
  std::vector<std::byte> w(bare::kMostWeightBytes);
  std::vector<std::byte> inputs(bare::kMostNumbers * 2);
  for (std::size_t i = 0; i < bare::kProducts; ++i) {
    const bare::Product product(i, x.data(), w.data());
    std::printf("0x%016llxU,\n",
                static_cast<unsigned long long>(product.digest(exec::plain_kernels(), x.data(),
                                                               w.data(), inputs.data(), y.data())));
  }
}
