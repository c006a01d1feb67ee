#pragma once

#include <vector>

#include "exec/kernels/product.hpp"

namespace tandem::exec {

using ManyRowProduct = void (*)(const Product&);

// One source, compiled for one instruction set each; each function has its own copy of Eigen under
// another name, so that the linker cannot mix them.
void many_row_product_baseline(const Product& p);
void many_row_product_v3(const Product& p);  // x86-64-v3: AVX2, FMA
void many_row_product_v4(const Product& p);  // x86-64-v4: AVX-512

// The products that were built and that this processor can run, the fastest first.
[[nodiscard]] std::vector<ManyRowProduct> supported_many_row_products();

}  // namespace tandem::exec
