#include "exec/kernels/many_row_product.hpp"

namespace tandem::exec {

std::vector<ManyRowProduct> supported_many_row_products() {
  std::vector<ManyRowProduct> products;
#if defined(TANDEM_X86_LEVELS)
  const bool v3 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                  __builtin_cpu_supports("bmi2") != 0;
  const bool v4 =
      v3 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512cd") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
      __builtin_cpu_supports("avx512vl") != 0;
  if (v4) products.push_back(&many_row_product_v4);
  if (v3) products.push_back(&many_row_product_v3);
#endif
  products.push_back(&many_row_product_baseline);
  return products;
}

void many_row_product(const Product& p) {
  static const ManyRowProduct best = supported_many_row_products().front();
  best(p);
}

}  // namespace tandem::exec
