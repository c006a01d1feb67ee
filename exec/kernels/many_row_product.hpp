#pragma once

#include "exec/kernels/product.hpp"

namespace tandem::exec {

// The same source compiled for growing instruction sets; each has its own copy of Eigen under
// another name, so that the linker cannot mix them.
void many_row_product_baseline(const Product& p);
#if defined(TANDEM_X86_LEVELS)
void many_row_product_v3(const Product& p);  // x86-64-v3: AVX2, FMA
void many_row_product_v4(const Product& p);  // x86-64-v4: AVX-512
#endif

}  // namespace tandem::exec
