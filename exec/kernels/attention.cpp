#include "exec/kernels/attention.hpp"

#include <cmath>

#include "exec/kernels/cache_kernels.hpp"

namespace tandem::exec {

namespace {

// Returns `a` for keys as they are stored: scores are multiplied by their scale.
Attention of_stored_keys(Attention a) {
  if (a.cache.scales == nullptr) return a;
  if (!(a.scale > 0.0F)) a.scale = 1.0F / std::sqrt(static_cast<float>(a.head_dim));
  a.scale *= a.cache.scales->key;
  return a;
}

}  // namespace

void attend(const Attention& a) {
  cache_kernels(a.cache.format).attend(of_stored_keys(a));
  const float scale = a.cache.scales == nullptr ? 1.0F : a.cache.scales->value;
  if (scale == 1.0F) return;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    float* const output = a.output + row * a.output_stride;
    for (std::int64_t i = 0; i < a.group * a.head_dim; ++i) output[i] *= scale;
  }
}

void weigh_keys(const Attention& a, float* sums, std::int64_t stride) {
  cache_kernels(a.cache.format).weigh_keys(of_stored_keys(a), sums, stride);
}

}  // namespace tandem::exec
