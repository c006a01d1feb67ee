// Attention over a cache in Q8_0.

#include "exec/kernels/attention.hpp"
#include "exec/kernels/cache_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/attention_q8_0.cpp"
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

void attend_q8_0(const Attention& a) { attend_over<KeyLevel>(a); }

void weigh_keys_q8_0(const Attention& a, float* sums, std::int64_t stride) {
  weigh_keys_over<KeyLevel>(a, sums, stride);
}

}  // namespace
}  // namespace tandem::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::exec {

HWY_EXPORT(attend_q8_0);
void attend_q8_0(const Attention& a) { HWY_DYNAMIC_DISPATCH(attend_q8_0)(a); }

HWY_EXPORT(weigh_keys_q8_0);
void weigh_keys_q8_0(const Attention& a, float* sums, std::int64_t stride) {
  HWY_DYNAMIC_DISPATCH(weigh_keys_q8_0)(a, sums, stride);
}

}  // namespace tandem::exec
#endif
