#pragma once

// Products of weights in block formats (model::multiplies_integers) with inputs of 8 bits. What
// such a product is belongs to the format, not to the machine: every kernel here gives the same
// bits, as do all devices of a plan, however outputs and tokens are split.
//
//   y[t, o] = (c[0] + c[2]) + (c[1] + c[3])
//   c[j] = sum over blocks b of 32, b = j, j + 4, ... in this order, each added by one fused
//   multiply-add, of
//          (s[o, b] d[t, b]) * float(sum over i in b of w[o, i] q[t, i])
//   and, of formats with least numbers (q4_k, q5_k), then by another one
//         -(m[o, b] d[t, b]) * float(sum over i in b of q[t, i])
//   q, d    inputs in blocks of 32: d = max |x| / 127, q = x * (127 / max |x|) to the nearest
//           integer, ties to even; 0 where max |x| < 2^-100; all d of a block with an infinity or a
//           NaN are NaN
//   w, s    the format's integers and scale: s w - m is what exec/weights/formats/block_codec
//   decodes.
//           q4_k, q5_k: w as stored, s and m the halves of the 256 times the part's integers,
//           rounded once; q6_k: w with the part's integer scale, s the half of the 256
// The sum over a block is exact, as a float, too; s d and m d are rounded once.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "exec/kernels/weight_operands.hpp"
#include "model/transformer/weight_format.hpp"

namespace tandem::exec {

inline constexpr std::int64_t kInputBlock = 32;  // numbers with a scale of their own
inline constexpr std::int64_t kChains = 4;       // sums that are added at the end
// So many tokens at most read weights as they lie; of more each row is unpacked or transposed once.
inline constexpr std::int64_t kFewTokens = 4;
// Inputs are padded to steps of this many blocks with zeros.
inline constexpr std::int64_t padded_blocks(std::int64_t blocks) {
  return (blocks + kChains - 1) / kChains * kChains;
}

// Inputs as integers, [tokens, padded blocks] of each. Not owned; at multiples of 64 bytes.
struct IntegerInputs {
  std::int8_t* q = nullptr;  // 32 a block
  float* scales = nullptr;
  std::int16_t* sums = nullptr;  // of a block's first 16 q, and of the others: two a block
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
                                        std::int64_t blocks) {
    const std::int64_t stride = stride_of(blocks);
    const auto line = [](std::int64_t bytes) { return (bytes + 63) / 64 * 64; };
    std::byte* const scales = memory + tokens * stride * kInputBlock;  // a multiple of 128
    return {.q = reinterpret_cast<std::int8_t*>(memory),
            .scales = reinterpret_cast<float*>(scales),
            .sums = reinterpret_cast<std::int16_t*>(scales + line(4 * tokens * stride)),
            .stride = stride};
  }
  [[nodiscard]] IntegerInputs token(std::int64_t t) const {
    return {q + t * stride * kInputBlock, scales + t * stride, sums + 2 * t * stride, stride};
  }
  // Of all q of a block.
  [[nodiscard]] std::int32_t sum(std::int64_t block) const {
    return sums[2 * block] + sums[2 * block + 1];
  }
};

// Whether blocks have numbers m.
constexpr bool has_leasts(model::WeightFormat format) {
  return format == model::WeightFormat::q4_k || format == model::WeightFormat::q5_k;
}

// A product of weights whose inputs are these: its own, in f32, are not read.
struct IntegerProduct : WeightProduct {
  IntegerInputs in;
  std::int64_t blocks = 0;  // of a row, of 32

  // Its outputs [begin, end).
  [[nodiscard]] IntegerProduct slice(std::int64_t begin, std::int64_t end) const {
    return {WeightProduct::slice(begin, end), in, blocks};
  }
  // Its tokens [begin, end).
  [[nodiscard]] IntegerProduct some(std::int64_t begin, std::int64_t end) const {
    IntegerProduct p = *this;
    p.in = in.token(begin);
    p.y += begin * y_stride;
    p.tokens = end - begin;
    return p;
  }
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

// From now on only those from the one of that name on, if this processor can run it; not while
// kernels run.
void limit_integer_kernels(std::string_view best);

// The parts, for machines that have them: null where this was built for another architecture or
// the processor lacks the instructions.
[[nodiscard]] const IntegerKernels* amx_kernels();
[[nodiscard]] const IntegerKernels* vnni_kernels();
[[nodiscard]] const IntegerKernels* vnni_lanes_kernels();
[[nodiscard]] const IntegerKernels* avx_vnni_kernels();
[[nodiscard]] const IntegerKernels* avx2_kernels();
[[nodiscard]] const IntegerKernels* sdot_kernels();
[[nodiscard]] const IntegerKernels& plain_kernels();

}  // namespace tandem::exec
