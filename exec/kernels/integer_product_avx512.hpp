#pragma once

// What the AVX-512 integer products share; included by their .cpp files only.

#include "exec/kernels/integer_product.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#define TANDEM_VNNI_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma"
#define TANDEM_VNNI __attribute__((target(TANDEM_VNNI_TARGET)))
#define TANDEM_VNNI_INLINE inline __attribute__((target(TANDEM_VNNI_TARGET), always_inline))

namespace tandem::exec {

// Weights of 16 outputs as integer products of many tokens read them: for each block and each four
// neighbouring numbers of it (32 / 4 of them) 16 times these four, one output after the other, and
// for each block 16 scales.
struct WeightPanel {
  static constexpr std::int64_t kOutputs = 16;
  static constexpr std::int64_t kBlockBytes = kOutputs * kInputBlock;
  std::byte* q = nullptr;
  float* scales = nullptr;

  [[nodiscard]] static constexpr std::int64_t bytes(std::int64_t blocks) {
    return blocks * (kBlockBytes + kOutputs * 4);
  }
};

// The longest rows that are packed into panels: 32,768 numbers.
inline constexpr std::int64_t kMostPanelBlocks = 1024;

// Packs up to 16 outputs of `p` from its first; those that there are not are copies of the last.
// Integers have what makes them unsigned added (`offset_of`) unless `as_signed`.
void pack_panel(const IntegerProduct& p, bool as_signed, const WeightPanel& to);

// What is added to a format's integers where instructions want them unsigned.
constexpr std::int32_t offset_of(model::WeightFormat format) {
  return format == model::WeightFormat::q8_0 ? 128 : 8;
}

}  // namespace tandem::exec

#endif
