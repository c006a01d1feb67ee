// Integer products of many tokens with AVX-VNNI, which has AVX2's vectors and adds four products of
// bytes, or two of words, to 32 bits at once.

#include <algorithm>
#include <cstring>

#include "exec/kernels/integer_product_avx2.hpp"
#include "exec/kernels/scratch.hpp"

#if defined(__x86_64__)

#include <cpuid.h>

#define TANDEM_LANES __attribute__((target("avx2,fma,f16c,avxvnni")))
#define TANDEM_LANES_INLINE inline __attribute__((target("avx2,fma,f16c,avxvnni"), always_inline))

namespace tandem::exec {
namespace {

struct Lanes : Avx2Lanes {
  static constexpr bool kDots = true;

  // The empty line keeps a sum in its register: GCC would keep a copy in memory.
  static TANDEM_LANES_INLINE void dot_bytes(Integers& sum, Integers w, Integers x) {
    sum = _mm256_dpbusd_avx_epi32(sum, w, x);
    asm volatile("" : "+x"(sum));
  }
  static TANDEM_LANES_INLINE void dot_words(Integers& sum, Integers w, Integers x) {
    sum = _mm256_dpwssd_avx_epi32(sum, w, x);
    asm volatile("" : "+x"(sum));
  }
};

#include "exec/kernels/integer_product_many-inl.hpp"

// Few tokens wait for memory, and rows that are too long for this are rare: both as with AVX2.
void multiply(const IntegerProduct& p) {
  if (p.tokens <= kFewTokens || p.blocks > most_blocks_of_lanes(p.format))
    return avx2_kernels()->multiply(p);
  product_of_lanes(p);
}

bool has_avx_vnni() {
  constexpr unsigned kAvxVnni = 1U << 4U;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvxVnni) != 0;
}

}  // namespace

const IntegerKernels* avx_vnni_kernels() {
  const IntegerKernels* const avx2 = avx2_kernels();
  if (avx2 == nullptr || !has_avx_vnni()) return nullptr;
  static const IntegerKernels kernels{"avx-vnni", avx2->quantise, multiply};
  return &kernels;
}

}  // namespace tandem::exec

#else

namespace tandem::exec {
const IntegerKernels* avx_vnni_kernels() { return nullptr; }
}  // namespace tandem::exec

#endif
