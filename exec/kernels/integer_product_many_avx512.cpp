// Integer products of many tokens with AVX-512 VNNI, a token a lane: beside the panels of
// integer_product_avx512.cpp another way to the same bits, without anything transposed of weights.

#include <algorithm>
#include <cstring>

#include "exec/kernels/integer_product_avx2.hpp"
#include "exec/kernels/scratch.hpp"

#if defined(__x86_64__)

#define TANDEM_LANES \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma")))
#define TANDEM_LANES_INLINE                                                               \
  inline __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma"), \
                        always_inline))

namespace tandem::exec {
namespace {

struct Lanes {
  static constexpr std::int64_t kTokens = 16;
  static constexpr std::int64_t kRows = 12;  // 24 sums of 32 registers
  static constexpr bool kDots = true;
  using Integers = __m512i;
  using Floats = __m512;

  static TANDEM_LANES_INLINE Integers integers(const void* from) { return _mm512_load_si512(from); }
  static TANDEM_LANES_INLINE Integers set(std::int32_t all) { return _mm512_set1_epi32(all); }
  // The empty line keeps a sum in its register: GCC would keep a copy in memory.
  static TANDEM_LANES_INLINE void dot_bytes(Integers& sum, Integers w, Integers x) {
    sum = _mm512_dpbusd_epi32(sum, w, x);
    asm volatile("" : "+v"(sum));
  }
  static TANDEM_LANES_INLINE void dot_words(Integers& sum, Integers w, Integers x) {
    sum = _mm512_dpwssd_epi32(sum, w, x);
    asm volatile("" : "+v"(sum));
  }

  static TANDEM_LANES_INLINE Floats load(const float* from) { return _mm512_load_ps(from); }
  static TANDEM_LANES_INLINE void store(float* to, Floats v) { _mm512_store_ps(to, v); }
  static TANDEM_LANES_INLINE Floats set(float all) { return _mm512_set1_ps(all); }
  static TANDEM_LANES_INLINE Floats floats(Integers v) { return _mm512_cvtepi32_ps(v); }
  static TANDEM_LANES_INLINE Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static TANDEM_LANES_INLINE Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static TANDEM_LANES_INLINE Floats fmadd(Floats a, Floats b, Floats c) {
    return _mm512_fmadd_ps(a, b, c);
  }
  static TANDEM_LANES_INLINE Floats fnmadd(Floats a, Floats b, Floats c) {
    return _mm512_fnmadd_ps(a, b, c);
  }
};

#include "exec/kernels/integer_product_many-inl.hpp"

// Few tokens read weights as they are, as do rows that are too long for this.
void multiply(const IntegerProduct& p) {
  if (p.tokens <= kFewTokens || p.blocks > most_blocks_of_lanes(p.format))
    return vnni_kernels()->multiply(p);
  product_of_lanes(p);
}

}  // namespace

const IntegerKernels* vnni_lanes_kernels() {
  const IntegerKernels* const panels = vnni_kernels();
  if (panels == nullptr) return nullptr;
  static const IntegerKernels kernels{"avx512-vnni-lanes", panels->quantise, multiply};
  return &kernels;
}

}  // namespace tandem::exec

#else

namespace tandem::exec {
const IntegerKernels* vnni_lanes_kernels() { return nullptr; }
}  // namespace tandem::exec

#endif
