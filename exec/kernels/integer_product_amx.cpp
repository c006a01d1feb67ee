// Integer products of many tokens with tiles of AMX: the same bits as exec/kernels/integer_product
// says. Of each block a tile has the sums of 16 tokens and 16 outputs, which AVX-512 scales and
// adds.

#include "exec/kernels/integer_product_avx512.hpp"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TANDEM_AMX __attribute__((target(TANDEM_VNNI_TARGET ",amx-tile,amx-int8")))

namespace tandem::exec {
namespace {

constexpr int kTokens = 16;

// What LDTILECFG reads: rows and bytes a row of each tile. 0 and 5: sums of a block. 1: inputs, a
// token a row. 2: weights, four numbers of 16 outputs a row. 3, 4: the same of half a block.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t bytes[16] = {64, kInputBlock, 64, kInputBlock / 2, 64, 64};
  std::uint8_t rows[16] = {kTokens, kTokens, kInputBlock / 4, kTokens, kInputBlock / 8, kTokens};
};
static_assert(sizeof(TileConfig) == 64);

// 16 tokens and a panel of signed integers; chain after chain, so that
// its sums stay in registers.
template <model::WeightFormat kFormat>
TANDEM_AMX void tile_product(const IntegerProduct& p, const WeightPanel& w, const IntegerInputs& x,
                             float* y) {
  constexpr bool kHalves = kFormat == model::WeightFormat::q6_k;
  alignas(64) std::int32_t dots[kTokens * 16];
  alignas(64) std::int32_t more[kHalves ? kTokens * 16 : 16];  // of the blocks' second halves
  alignas(64) float chains[kChains][kTokens * 16];
  for (std::int64_t chain = 0; chain < kChains; ++chain) {
    __m512 acc[kTokens];
#pragma GCC unroll 16
    for (int t = 0; t < kTokens; ++t) acc[t] = _mm512_setzero_ps();
    for (std::int64_t b = chain; b < p.blocks; b += kChains) {
      const std::int8_t* const q = x.q + b * kInputBlock;
      const std::byte* const weights = w.q + b * WeightPanel::kBlockBytes;
      const __m512 scales = _mm512_load_ps(w.scales + 16 * b);
      if constexpr (kHalves) {
        _tile_zero(0);
        _tile_loadd(3, q, x.stride * kInputBlock);
        _tile_loadd(4, weights, 64);
        _tile_dpbssd(0, 3, 4);
        _tile_stored(0, dots, 64);
        _tile_zero(5);
        _tile_loadd(3, q + kInputBlock / 2, x.stride * kInputBlock);
        _tile_loadd(4, weights + WeightPanel::kBlockBytes / 2, 64);
        _tile_dpbssd(5, 3, 4);
        _tile_stored(5, more, 64);
      } else {
        _tile_zero(0);
        _tile_loadd(1, q, x.stride * kInputBlock);
        _tile_loadd(2, weights, 64);
        _tile_dpbssd(0, 1, 2);
        _tile_stored(0, dots, 64);
      }
#pragma GCC unroll 16
      for (std::int64_t t = 0; t < kTokens; ++t) {
        __m512i sum = _mm512_load_si512(dots + 16 * t);
        if constexpr (kHalves) {
          sum = _mm512_add_epi32(_mm512_mullo_epi32(sum, _mm512_load_si512(w.parts + 32 * b)),
                                 _mm512_mullo_epi32(_mm512_load_si512(more + 16 * t),
                                                    _mm512_load_si512(w.parts + 32 * b + 16)));
        }
        add_panel_block<has_leasts(kFormat)>(w, scales, x.token(t), b, sum, acc[t]);
      }
    }
#pragma GCC unroll 16
    for (std::int64_t t = 0; t < kTokens; ++t) _mm512_store_ps(chains[chain] + 16 * t, acc[t]);
  }
  const auto outputs = static_cast<__mmask16>((1U << p.outputs) - 1U);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    const __m512 even =
        _mm512_add_ps(_mm512_load_ps(chains[0] + 16 * t), _mm512_load_ps(chains[2] + 16 * t));
    const __m512 odd =
        _mm512_add_ps(_mm512_load_ps(chains[1] + 16 * t), _mm512_load_ps(chains[3] + 16 * t));
    _mm512_mask_storeu_ps(y + t * p.y_stride, outputs, _mm512_add_ps(even, odd));
  }
}

template <model::WeightFormat kFormat>
TANDEM_AMX void multiply_tiles(const IntegerProduct& p) {
  const WeightPanel panel = WeightPanel::at(kernel_scratch().panel, p.blocks);
  const TileConfig config;
  _tile_loadconfig(&config);
  for (std::int64_t o = 0; o < p.outputs; o += WeightPanel::kOutputs) {
    const std::int64_t end = o + WeightPanel::kOutputs;
    const IntegerProduct some = p.slice(o, end < p.outputs ? end : p.outputs);
    pack_panel(some, true, panel);
    for (std::int64_t t = 0; t < p.tokens; t += kTokens)
      tile_product<kFormat>(some, panel, p.in.token(t), some.y + t * p.y_stride);
  }
  _tile_release();
}

// Whole sixteens of tokens; what is left by vectors.
void multiply(const IntegerProduct& p) {
  const std::int64_t whole = p.blocks > kMostPanelBlocks ? 0 : p.tokens / kTokens * kTokens;
  if (whole > 0) {
    with_format(p.format, [&]<model::WeightFormat F>() { multiply_tiles<F>(p.some(0, whole)); });
  }
  if (whole < p.tokens) vnni_kernels()->multiply(p.some(whole, p.tokens));
}

// The kernel gives a process the tiles' state only if it is asked to.
bool may_use_tiles() {
  constexpr unsigned kTile = 1U << 24U;
  constexpr unsigned kInt8 = 1U << 25U;
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTile) == 0 || (d & kInt8) == 0)
    return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

const IntegerKernels* amx_kernels() {
  const IntegerKernels* const vectors = vnni_kernels();
  if (vectors == nullptr) return nullptr;
  static const bool allowed = may_use_tiles();
  static const IntegerKernels kernels{"amx-int8", vectors->quantise, multiply};
  return allowed ? &kernels : nullptr;
}

}  // namespace tandem::exec

#else

namespace tandem::exec {
const IntegerKernels* amx_kernels() { return nullptr; }
}  // namespace tandem::exec

#endif
