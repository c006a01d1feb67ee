// Attention over a cache in F16.

#include "exec/kernels/attention.hpp"
#include "exec/kernels/cache_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/attention_f16.cpp"
#include "exec/kernels/targets.hpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "exec/kernels/attention_over-inl.hpp"
#include "exec/kernels/key_weights-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tandem::exec::HWY_NAMESPACE {
namespace {

void attend_f16(const Attention& a) { attend_over<Half>(a); }

void weigh_keys_f16(const Attention& a, float* sums, std::int64_t stride) {
  weigh_keys_over<Half>(a, sums, stride);
}

}  // namespace
}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::exec {

HWY_EXPORT(attend_f16);
void attend_f16(const Attention& a) { HWY_DYNAMIC_DISPATCH(attend_f16)(a); }

HWY_EXPORT(weigh_keys_f16);
void weigh_keys_f16(const Attention& a, float* sums, std::int64_t stride) {
  HWY_DYNAMIC_DISPATCH(weigh_keys_f16)(a, sums, stride);
}

}  // namespace tandem::exec
#endif
