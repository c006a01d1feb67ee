#include "exec/kernels/many_row_product.hpp"

#include <algorithm>

#include "exec/kernels/rowwise.hpp"

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

void many_row_gated_product(const Product& p, const float* up, std::span<float> scratch) {
  constexpr std::int64_t kLeastOutputs = 64;
  const auto room = static_cast<std::int64_t>(scratch.size());
  const std::int64_t tokens = std::min(p.tokens, room / kLeastOutputs);
  const std::int64_t outputs = std::min(p.outputs, room / tokens);
  for (std::int64_t t = 0; t < p.tokens; t += tokens) {
    for (std::int64_t o = 0; o < p.outputs; o += outputs) {
      Product gate = p.part(o, std::min(o + outputs, p.outputs));
      gate.x += t * p.x_stride;
      gate.y += t * p.y_stride;
      gate.tokens = std::min(tokens, p.tokens - t);
      Product ups = gate;
      ups.w = up + o * p.w_stride;
      ups.y = scratch.data();
      ups.y_stride = gate.outputs;
      many_row_product(gate);
      many_row_product(ups);
      for (std::int64_t row = 0; row < gate.tokens; ++row) {
        gate_with(ups.y + row * ups.y_stride, gate.outputs, gate.y + row * gate.y_stride);
      }
    }
  }
}

}  // namespace tandem::exec
