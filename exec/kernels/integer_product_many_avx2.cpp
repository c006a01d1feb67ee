// Integer products of many tokens with AVX2. Integers of at most five bits are multiplied as bytes
// and summed in 16 bits for as long as they cannot overflow; others as words of 16 bits.

#include <algorithm>
#include <cstring>

#include "exec/kernels/integer_product_avx2.hpp"
#include "exec/kernels/scratch.hpp"

#if defined(__x86_64__)

#define TANDEM_LANES TANDEM_AVX2
#define TANDEM_LANES_INLINE TANDEM_AVX2_INLINE

namespace tandem::exec {
namespace {

struct Lanes : Avx2Lanes {
  static constexpr bool kDots = false;

  static TANDEM_AVX2_INLINE Integers two_of_bytes(Integers w, Integers x) {
    return _mm256_maddubs_epi16(w, x);
  }
  static TANDEM_AVX2_INLINE Integers two_of_words(Integers w, Integers x) {
    return _mm256_madd_epi16(w, x);
  }
  // Here and now: GCC would first make all products of a step, or of several, and for want of
  // registers keep sums in memory.
  static TANDEM_AVX2_INLINE void add_16_bits(Integers& sum, Integers products) {
    asm volatile("vpaddw %1, %0, %0" : "+x"(sum) : "x"(products));
  }
  static TANDEM_AVX2_INLINE void add_32_bits(Integers& sum, Integers products) {
    asm volatile("vpaddd %1, %0, %0" : "+x"(sum) : "x"(products));
  }
  static TANDEM_AVX2_INLINE Integers sum(Integers a, Integers b) { return _mm256_add_epi32(a, b); }
  // Of 16 bits the sums of two neighbours in 32.
  static TANDEM_AVX2_INLINE Integers widened(Integers shorts) {
    return _mm256_madd_epi16(shorts, _mm256_set1_epi16(1));
  }
};

#include "exec/kernels/integer_product_many-inl.hpp"

}  // namespace

std::int64_t most_blocks_of_many_tokens(model::WeightFormat format) {
  return most_blocks_of_lanes(format);
}

void many_tokens(const IntegerProduct& p) { product_of_lanes(p); }

}  // namespace tandem::exec

#endif
