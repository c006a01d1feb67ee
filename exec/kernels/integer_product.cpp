#include "exec/kernels/integer_product.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "exec/weights/formats/convert.hpp"
#include "exec/weights/formats/k_codec.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

float half_at(const std::byte* from) {
  float value = 0.0F;
  to_f32(model::DType::f16, {from, 2}, {&value, 1});
  return value;
}

// A block of 32 of a row and inputs: what is added to a chain.
struct Term {
  std::int32_t sum = 0;
  float scale = 0.0F;
  float least = 0.0F;
};

Term term_of_q8_0(const std::byte* block, const std::int8_t* q) {
  Term term{.scale = half_at(block)};
  for (std::int64_t i = 0; i < kInputBlock; ++i)
    term.sum += static_cast<std::int8_t>(block[2 + i]) * q[i];
  return term;
}

Term term_of_q4_0(const std::byte* block, const std::int8_t* q) {
  Term term{.scale = half_at(block)};
  for (std::int64_t i = 0; i < kInputBlock / 2; ++i) {
    const int both = std::to_integer<int>(block[2 + i]);
    term.sum += ((both & 0xf) - 8) * q[i] + ((both >> 4) - 8) * q[i + kInputBlock / 2];
  }
  return term;
}

// `part` of the eight of a block of 256.
Term term_of_q45_k(const std::byte* block, bool fifth, std::int64_t part, const std::int8_t* q) {
  const PartScale of = part_scale(block + 4, static_cast<std::size_t>(part));
  Term term{.scale = half_at(block) * static_cast<float>(of.scale),
            .least = half_at(block + 2) * static_cast<float>(of.least)};
  const std::byte* const halves = block + (fifth ? 48 : 16) + part / 2 * 32;
  for (std::int64_t i = 0; i < kInputBlock; ++i) {
    int w = std::to_integer<int>(halves[i]) >> (part % 2 * 4) & 15;
    if (fifth) w |= (std::to_integer<int>(block[16 + i]) >> part & 1) << 4;
    term.sum += w * q[i];
  }
  return term;
}

Term term_of_q6_k(const std::byte* block, std::int64_t part, const std::int8_t* q) {
  Term term{.scale = half_at(block + 208)};
  const std::byte* const low = block + part / 4 * 64 + part % 2 * 32;
  const std::byte* const high = block + 128 + part / 4 * 32;
  const std::int64_t shift = part % 4 * 2;
  for (std::int64_t i = 0; i < kInputBlock; ++i) {
    const int w = (std::to_integer<int>(low[i]) >> (part % 4 / 2 * 4) & 15) |
                  (std::to_integer<int>(high[i]) >> shift & 3) << 4;
    const auto scale = static_cast<std::int8_t>(block[192 + 2 * part + i / 16]);
    term.sum += scale * (w - 32) * q[i];
  }
  return term;
}

// Block `b` of 32 of a row.
Term term_of(model::WeightFormat format, const std::byte* row, std::int64_t b,
             const std::int8_t* q) {
  const model::FormatBlock size = model::block_of(format);
  const std::int64_t parts = std::max<std::int64_t>(1, size.elements / kInputBlock);
  const std::byte* const block = row + b / parts * size.bytes;
  const std::int64_t part = b % parts;
  if (format == model::WeightFormat::q8_0) return term_of_q8_0(block, q);
  if (format == model::WeightFormat::q4_0) return term_of_q4_0(block, q);
  if (format == model::WeightFormat::q6_k) return term_of_q6_k(block, part, q);
  return term_of_q45_k(block, format == model::WeightFormat::q5_k, part, q);
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
    to.sums[2 * b] = 0;
    to.sums[2 * b + 1] = 0;
    const auto magnitude = std::bit_cast<float>(most);
    if (most >= kInfinity || magnitude < kLeast) continue;
    to.scales[b] = magnitude / 127.0F;
    const float by = 127.0F / magnitude;
    for (std::int64_t i = 0; i < kInputBlock; ++i) {
      q[i] = static_cast<std::int8_t>(std::nearbyint(x[b * kInputBlock + i] * by));
      std::int16_t& sum = to.sums[2 * b + i / 16];
      sum = static_cast<std::int16_t>(sum + q[i]);
    }
  }
}

void multiply(const IntegerProduct& p) {
  for (std::int64_t o = 0; o < p.outputs; ++o) {
    for (std::int64_t t = 0; t < p.tokens; ++t) {
      const IntegerInputs x = p.in.token(t);
      std::array<float, kChains> chains{};
      for (std::int64_t b = 0; b < p.blocks; ++b) {
        const Term term = term_of(p.format, p.w + o * p.w_stride, b, x.q + b * kInputBlock);
        float& chain = chains[static_cast<std::size_t>(b % kChains)];
        chain = std::fma(static_cast<float>(term.sum), term.scale * x.scales[b], chain);
        if (has_leasts(p.format))
          chain = std::fma(-static_cast<float>(x.sum(b)), term.least * x.scales[b], chain);
      }
      p.y[t * p.y_stride + o] = (chains[0] + chains[2]) + (chains[1] + chains[3]);
    }
  }
}

std::vector<IntegerKernels>& runnable() {
  static std::vector<IntegerKernels> kernels = [] {
    std::vector<IntegerKernels> all;
    for (const IntegerKernels* one : {amx_kernels(), vnni_kernels(), vnni_lanes_kernels(),
                                      avx_vnni_kernels(), avx2_kernels(), sdot_kernels()}) {
      if (one != nullptr) all.push_back(*one);
    }
    all.push_back(plain_kernels());
    return all;
  }();
  return kernels;
}

}  // namespace

const IntegerKernels& plain_kernels() {
  static constexpr IntegerKernels kPlain{"plain", quantise, multiply};
  return kPlain;
}

std::span<const IntegerKernels> integer_kernels() { return runnable(); }

void limit_integer_kernels(std::string_view best) {
  std::vector<IntegerKernels>& kernels = runnable();
  const auto first = std::ranges::find(kernels, best, &IntegerKernels::name);
  if (first != kernels.end()) kernels.erase(kernels.begin(), first);
}

}  // namespace tandem::exec
