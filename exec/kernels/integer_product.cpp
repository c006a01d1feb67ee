#include "exec/kernels/integer_product.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "exec/weights/convert.hpp"
#include "model/error.hpp"

namespace tandem::exec {
namespace {

float scale_of(const std::byte* block) {
  float scale = 0.0F;
  to_f32(model::DType::f16, {block, 2}, {&scale, 1});
  return scale;
}

std::int32_t dot(model::WeightFormat format, const std::byte* block, const std::int8_t* q) {
  std::int32_t sum = 0;
  const std::byte* const w = block + 2;
  if (format == model::WeightFormat::q8_0) {
    for (std::int64_t i = 0; i < kInputBlock; ++i) sum += static_cast<std::int8_t>(w[i]) * q[i];
    return sum;
  }
  for (std::int64_t i = 0; i < kInputBlock / 2; ++i) {
    const int both = std::to_integer<int>(w[i]);
    sum += ((both & 0xf) - 8) * q[i] + ((both >> 4) - 8) * q[i + kInputBlock / 2];
  }
  return sum;
}

void quantise(const float* x, std::int64_t blocks, const IntegerInputs& to) {
  constexpr std::uint32_t kInfinity = 0x7f800000U;
  constexpr float kLeast = 0x1p-100F;
  for (std::int64_t b = 0; b < padded_blocks(blocks); ++b) {
    std::int8_t* const q = to.q + b * kInputBlock;
    std::uint32_t most = 0;
    if (b < blocks) {
      for (std::int64_t i = 0; i < kInputBlock; ++i) {
        const std::uint32_t bits =
            std::bit_cast<std::uint32_t>(x[b * kInputBlock + i]) & 0x7fffffffU;
        if (bits > most) most = bits;
      }
    }
    std::memset(q, 0, static_cast<std::size_t>(kInputBlock));
    to.scales[b] = most >= kInfinity ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
    to.sums[b] = 0;
    const auto magnitude = std::bit_cast<float>(most);
    if (most >= kInfinity || magnitude < kLeast) continue;
    to.scales[b] = magnitude / 127.0F;
    const float by = 127.0F / magnitude;
    for (std::int64_t i = 0; i < kInputBlock; ++i) {
      q[i] = static_cast<std::int8_t>(std::nearbyint(x[b * kInputBlock + i] * by));
      to.sums[b] += q[i];
    }
  }
}

void multiply(const IntegerProduct& p) {
  const std::int64_t bytes = model::block_of(p.format).bytes;
  for (std::int64_t o = 0; o < p.outputs; ++o) {
    for (std::int64_t t = 0; t < p.tokens; ++t) {
      const IntegerInputs x = p.x.token(t);
      std::array<float, kChains> chains{};
      for (std::int64_t b = 0; b < p.blocks; ++b) {
        const std::byte* const block = p.w + o * p.w_stride + b * bytes;
        float& chain = chains[static_cast<std::size_t>(b % kChains)];
        chain = std::fma(static_cast<float>(dot(p.format, block, x.q + b * kInputBlock)),
                         scale_of(block) * x.scales[b], chain);
      }
      p.y[t * p.y_stride + o] = (chains[0] + chains[2]) + (chains[1] + chains[3]);
    }
  }
}

std::vector<IntegerKernels> runnable() {
  std::vector<IntegerKernels> kernels;
  for (const IntegerKernels* one : {amx_kernels(), vnni_kernels(), avx2_kernels()}) {
    if (one != nullptr) kernels.push_back(*one);
  }
  kernels.push_back(plain_kernels());
  return kernels;
}

}  // namespace

IntegerInputs IntegerInputs::at(std::byte* memory, std::int64_t tokens, std::int64_t blocks) {
  const std::int64_t stride = stride_of(blocks);
  const auto line = [](std::int64_t bytes) { return (bytes + 63) / 64 * 64; };
  std::byte* const scales = memory + tokens * stride * kInputBlock;  // a multiple of 128
  return {.q = reinterpret_cast<std::int8_t*>(memory),
          .scales = reinterpret_cast<float*>(scales),
          .sums = reinterpret_cast<std::int32_t*>(scales + line(4 * tokens * stride)),
          .stride = stride};
}

const IntegerKernels& plain_kernels() {
  static constexpr IntegerKernels kPlain{"plain", quantise, multiply};
  return kPlain;
}

std::span<const IntegerKernels> integer_kernels() {
  static const std::vector<IntegerKernels> kernels = runnable();
  return kernels;
}

}  // namespace tandem::exec
