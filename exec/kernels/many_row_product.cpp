#include "exec/kernels/many_row_product.hpp"

namespace tandem::exec {

void many_row_product(const Product& p) {
#if defined(TANDEM_X86_LEVELS)
  using Implementation = void (*)(const Product&);
  static const Implementation kBest = [] {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      return &many_row_product_v4;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2")) {
      return &many_row_product_v3;
    }
    return &many_row_product_baseline;
  }();
  kBest(p);
#else
  many_row_product_baseline(p);
#endif
}

}  // namespace tandem::exec
