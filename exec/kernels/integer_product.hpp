#pragma once

// Products of weights in block formats (model::multiplies_integers) with inputs of 8 bits. What
// such a product is belongs to the format, not to the machine: every kernel here gives the same
// bits, as do all devices of a plan, however outputs and tokens are split.
//
//   y[t, o] = (c[0] + c[2]) + (c[1] + c[3])
//   c[j] = sum over blocks b = j, j + 4, ... in this order, each added by one fused multiply-add,
//   of
//          (s[o, b] d[t, b]) * float(sum over i in b of w[o, i] q[t, i])
//   q, d    inputs in blocks of 32: d = max |x| / 127, q = x * (127 / max |x|) to the nearest
//           integer, ties to even; 0 where max |x| < 2^-100; all d of a block with an infinity or a
//           NaN are NaN
//   w, s    the format's integers and scale: s w is what exec/weights/block_codec decodes
// The sum over a block is exact; s d is rounded once.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "model/weight_format.hpp"

namespace tandem::exec {

inline constexpr std::int64_t kInputBlock = 32;  // numbers with a scale of their own
inline constexpr std::int64_t kChains = 4;       // sums that are added at the end
// Inputs are padded to steps of this many blocks with zeros.
inline constexpr std::int64_t padded_blocks(std::int64_t blocks) {
  return (blocks + kChains - 1) / kChains * kChains;
}

// Inputs as integers, [tokens, padded blocks] of each. Not owned; at multiples of 64 bytes.
struct IntegerInputs {
  std::int8_t* q = nullptr;  // 32 a block
  float* scales = nullptr;
  std::int32_t* sums = nullptr;  // of a block's q
  std::int64_t stride = 0;       // blocks from a token to the next

  // Tokens an odd number of steps apart: a tile's rows then lie in different sets of a cache.
  [[nodiscard]] static constexpr std::int64_t stride_of(std::int64_t blocks) {
    return (padded_blocks(blocks) / kChains | 1) * kChains;
  }
  // Bytes that `tokens` of `blocks` take, and how they lie there.
  [[nodiscard]] static constexpr std::int64_t bytes(std::int64_t tokens, std::int64_t blocks) {
    return tokens * stride_of(blocks) * (kInputBlock + 8) + 128;
  }
  [[nodiscard]] static IntegerInputs at(std::byte* memory, std::int64_t tokens,
                                        std::int64_t blocks);
  [[nodiscard]] IntegerInputs token(std::int64_t t) const {
    return {q + t * stride * kInputBlock, scales + t * stride, sums + t * stride, stride};
  }
};

struct IntegerProduct {
  IntegerInputs x;
  const std::byte* w = nullptr;  // [outputs, blocks], blocks of 32 as stored
  std::int64_t w_stride = 0;     // bytes
  model::WeightFormat format = model::WeightFormat::q8_0;
  float* y = nullptr;  // [tokens, outputs]
  std::int64_t y_stride = 0;
  std::int64_t tokens = 0;
  std::int64_t outputs = 0;
  std::int64_t blocks = 0;
};

// One instruction set's way of doing it.
struct IntegerKernels {
  std::string_view name;
  // One token's `blocks` blocks, and zeros up to the padding.
  void (*quantise)(const float* x, std::int64_t blocks, const IntegerInputs& to);
  void (*multiply)(const IntegerProduct& p);
};

// Those that this processor can run, the fastest first; the last is plain code.
[[nodiscard]] std::span<const IntegerKernels> integer_kernels();

// The parts, for machines that have them: null where this was built for another architecture or
// the processor lacks the instructions.
[[nodiscard]] const IntegerKernels* amx_kernels();
[[nodiscard]] const IntegerKernels* vnni_kernels();
[[nodiscard]] const IntegerKernels* avx2_kernels();
[[nodiscard]] const IntegerKernels& plain_kernels();

}  // namespace tandem::exec
