#include "exec/kernels/weight_product.hpp"

#include <doctest/doctest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "exec/kernels/integer_product.hpp"
#include "exec/kernels/product.hpp"
#include "exec/weights/files/aligned_buffer.hpp"
#include "exec/weights/formats/block_codec.hpp"
#include "tests/exec/kernels/kernel_test_support.hpp"

namespace tandem::exec::weight_product_test {
namespace {

using model::WeightFormat;
using testing::as_matrix;
using testing::check_close;
using testing::Matrix;
using testing::random_floats;
using testing::times_transposed;
using testing::tolerance;

struct Case {
  std::int64_t tokens, outputs, depth;
};

// Depths of halves may be any.
constexpr Case kHalves[] = {
    {1, 1, 1},      {1, 5, 16},   {1, 37, 131}, {2, 9, 64},   {3, 7, 33},     {4, 16, 48},
    {5, 13, 97},    {8, 12, 100}, {9, 31, 127}, {21, 13, 77}, {1, 3, 4099},   {9, 5, 3079},
    {21, 13, 4099}, {17, 1, 5},   {31, 67, 64}, {64, 48, 1},  {33, 29, 1031}, {300, 7, 2050}};
constexpr Case kBlocks[] = {{1, 1, 32},   {1, 37, 96},  {2, 9, 64},   {3, 7, 32},
                            {4, 16, 160}, {5, 13, 96},  {7, 4, 2048}, {8, 12, 64},
                            {9, 31, 128}, {21, 13, 96}, {70, 50, 64}, {12, 3, 65568}};

// Bytes whose last is the last of a page that another follows which must not be touched.
class AtTheEnd {
 public:
  explicit AtTheEnd(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (bytes + page - 1) / page * page + page;
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(memory_ != MAP_FAILED);
    REQUIRE(mprotect(memory_ + mapped_ - page, page, PROT_NONE) == 0);
    begin_ = memory_ + mapped_ - page - bytes;
  }
  AtTheEnd(const AtTheEnd&) = delete;
  AtTheEnd& operator=(const AtTheEnd&) = delete;
  ~AtTheEnd() { munmap(memory_, mapped_); }
  [[nodiscard]] std::byte* begin() const { return begin_; }

 private:
  std::size_t mapped_ = 0;
  std::byte* memory_ = nullptr;
  std::byte* begin_ = nullptr;
};

struct Operands {
  Operands(Case c, WeightFormat of)
      : format(of),
        row(static_cast<std::size_t>(model::row_bytes(of, c.depth))),
        x(random_floats(c.tokens * c.depth, 1)),
        weights(static_cast<std::size_t>(c.outputs) * row),
        w(filled(c, 2, weights.begin())),
        y(static_cast<std::size_t>(c.tokens * c.outputs), NAN),
        product{x.data(),  c.depth,  weights.begin(), static_cast<std::int64_t>(row),
                format,    y.data(), c.outputs,       c.tokens,
                c.outputs, c.depth} {}

  // Random weights in the format, and the numbers that they stand for.
  std::vector<float> filled(Case c, std::uint32_t seed, std::byte* to) const {
    std::vector<float> values = random_floats(c.outputs * c.depth, seed);
    const std::span<std::byte> bytes(to, static_cast<std::size_t>(c.outputs) * row);
    encode(format, values, bytes);
    decode(format, bytes, values);
    return values;
  }

  WeightFormat format;
  std::size_t row;
  std::vector<float> x;
  AtTheEnd weights;
  std::vector<float> w, y;
  WeightProduct product;
};

// The inputs that a product multiplies: as they are, or in 8 bits.
Matrix inputs_of(const Operands& o, Case c) {
  Matrix x = as_matrix(o.x, c.tokens, c.depth);
  if (!model::multiplies_integers(o.format)) return x;
  const std::int64_t blocks = c.depth / kInputBlock;
  AlignedBuffer memory(static_cast<std::size_t>(IntegerInputs::bytes(1, blocks)));
  const IntegerInputs in = IntegerInputs::at(memory.data(), 1, blocks);
  for (std::int64_t t = 0; t < c.tokens; ++t) {
    plain_kernels().quantise(o.x.data() + t * c.depth, blocks, in);
    for (std::int64_t k = 0; k < c.depth; ++k)
      x.at(t, k) = in.q[k] * static_cast<double>(in.scales[k / kInputBlock]);
  }
  return x;
}

// Whether byte `i` of a block is the upper one of a scale in f16.
bool scale_at(WeightFormat format, std::int64_t i) {
  if (format == WeightFormat::q2_k) return i == 81 || i == 83;
  if (format == WeightFormat::q3_k) return i == 109;
  const bool least = format == WeightFormat::q4_1 || format == WeightFormat::q5_1;
  return i == 1 || (least && i == 3);
}

template <class Body>
void for_all(const Body& body) {
  for (const WeightFormat format : model::kWeightFormats) {
    CAPTURE(to_string(format));
    const bool blocks = model::block_of(format).elements > 1;
    const std::span<const Case> cases =
        blocks ? std::span<const Case>(kBlocks) : std::span<const Case>(kHalves);
    const std::int64_t block = model::block_of(format).elements;
    for (Case c : cases) {
      c.depth = (c.depth + block - 1) / block * block;
      CAPTURE(c.tokens);
      CAPTURE(c.outputs);
      CAPTURE(c.depth);
      body(c, format);
    }
  }
}

}  // namespace

TEST_CASE("kernels/weight product: the sum of products of what is decoded, tolerance as of f32") {
  for_all([](Case c, WeightFormat format) {
    Operands o(c, format);
    const Matrix wanted = times_transposed(inputs_of(o, c), as_matrix(o.w, c.outputs, c.depth));
    testing::for_every_target([&] {
      std::ranges::fill(o.y, NAN);
      product(o.product);
      check_close(o.y, wanted, tolerance(c.depth));
    });
  });
}

TEST_CASE("kernels/weight product: outputs are the same bits however they are split") {
  for_all([](Case c, WeightFormat format) {
    Operands o(c, format);
    product(o.product);
    const std::vector<float> whole = o.y;
    for (const std::int64_t at : {std::int64_t{1}, c.outputs / 2, c.outputs - 1}) {
      if (at <= 0 || at >= c.outputs) continue;
      std::ranges::fill(o.y, NAN);
      product(o.product.slice(0, at));
      product(o.product.slice(at, c.outputs));
      CHECK(o.y == whole);
    }
  });
}

TEST_CASE("kernels/weight product: unpacked rows are the codec's numbers, bit for bit") {
  for_all([](Case c, WeightFormat format) {
    if (format == WeightFormat::f32 || model::multiplies_integers(format)) return;
    const Operands o(c, format);
    testing::for_every_target([&] {
      std::vector<float> row(static_cast<std::size_t>(c.depth));
      const std::int64_t last = c.outputs - 1;
      unpack(format, o.product.w + last * o.product.w_stride, c.depth, row.data());
      CHECK(std::memcmp(row.data(), o.w.data() + last * c.depth, row.size() * sizeof(float)) == 0);
    });
  });
}

// The plain form of what more than kFewRows tokens have, whose bits every instruction set gives
// that fuses products and sums.
TEST_CASE("kernels/weight product: many tokens are sums in order, by pieces, of what is decoded") {
  for_all([](Case c, WeightFormat format) {
    if (c.tokens <= kFewRows || model::multiplies_integers(format)) return;
    Operands o(c, format);
    constexpr std::int64_t kPiece = 1024;
    const std::int64_t unit = std::max<std::int64_t>(16, model::block_of(format).elements);
    const std::int64_t pieces = (c.depth + kPiece - 1) / kPiece;
    const std::int64_t depth = (c.depth + pieces * unit - 1) / (pieces * unit) * unit;
    std::vector<float> wanted;
    for (std::int64_t t = 0; t < c.tokens; ++t) {
      for (std::int64_t r = 0; r < c.outputs; ++r) {
        float sum = 0.0F;
        for (std::int64_t k = 0; k < c.depth; k += depth) {
          float piece = 0.0F;
          for (std::int64_t i = k; i < std::min(k + depth, c.depth); ++i)
            piece = std::fma(o.w[static_cast<std::size_t>(r * c.depth + i)],
                             o.x[static_cast<std::size_t>(t * c.depth + i)], piece);
          sum = k == 0 ? piece : sum + piece;
        }
        wanted.push_back(sum);
      }
    }
    testing::for_every_target([&] {
      constexpr std::int64_t kFusing = HWY_AVX2 | HWY_AVX3 | HWY_NEON;
      if ((hwy::SupportedTargets() & kFusing) == 0) return;
      std::ranges::fill(o.y, NAN);
      product(o.product);
      CHECK(std::memcmp(o.y.data(), wanted.data(), 4 * wanted.size()) == 0);
    });
  });
}

// They are decoded beside the products: all of a piece of the depth, where several vectors of
// tokens use it, or a moment ahead; 16 at a time, and what is left of it.
TEST_CASE("kernels/weight product: many tokens of any f16 or bf16 have the bits of f32's product") {
  for (const WeightFormat format : {WeightFormat::f16, WeightFormat::bf16}) {
    CAPTURE(to_string(format));
    for (const std::int64_t depth : {31, 64, 1072, 2003}) {
      CAPTURE(depth);
      const std::int64_t outputs = (65536 + depth - 1) / depth;
      Operands o({.tokens = 40, .outputs = outputs, .depth = depth}, format);
      Operands whole({.tokens = 40, .outputs = outputs, .depth = depth}, WeightFormat::f32);
      for (std::int64_t i = 0; i < outputs * depth; ++i) {
        auto bits = static_cast<std::uint16_t>(i);  // each of them; but weights are finite
        const std::uint16_t exponent = format == WeightFormat::f16 ? 0x7c00U : 0x7f80U;
        if ((bits & exponent) == exponent) bits ^= 0x4000U;
        std::memcpy(o.weights.begin() + 2 * i, &bits, sizeof bits);
      }
      const auto bytes = static_cast<std::size_t>(2 * outputs * depth);
      std::vector<float> values(static_cast<std::size_t>(outputs * depth));
      decode(format, {o.weights.begin(), bytes}, values);
      std::memcpy(whole.weights.begin(), values.data(), 4 * values.size());
      testing::for_every_target([&] {
        for (const std::int64_t tokens : {9, 17, 40}) {
          CAPTURE(tokens);
          o.product.tokens = whole.product.tokens = tokens;
          product(o.product);
          product(whole.product);
          const auto results = static_cast<std::size_t>(4 * tokens * outputs);
          CHECK(std::memcmp(o.y.data(), whole.y.data(), results) == 0);
        }
      });
    }
  }
}

TEST_CASE("kernels/weight product: rows of any bytes are unpacked as the codec has them") {
  std::mt19937 random(4);
  for (const WeightFormat format : model::kWeightFormats) {
    CAPTURE(to_string(format));
    const model::FormatBlock block = model::block_of(format);
    if (block.elements == 1 || model::multiplies_integers(format)) continue;
    constexpr std::int64_t kBlocksOfRow = 64;
    std::vector<std::byte> row(static_cast<std::size_t>(kBlocksOfRow * block.bytes));
    std::vector<float> wanted(static_cast<std::size_t>(kBlocksOfRow * block.elements));
    std::vector<float> got(wanted.size());
    do {  // but weights are finite
      for (std::byte& one : row) one = static_cast<std::byte>(random());
      for (std::int64_t b = 0; b < kBlocksOfRow; ++b) {
        // No exponent of a scale in f16 has all bits set, wherever the format keeps it.
        for (std::int64_t i = 1; i < block.bytes; ++i)
          if (scale_at(format, i))
            row[static_cast<std::size_t>(b * block.bytes + i)] &= std::byte{0xbf};
      }
      decode(format, row, wanted);
    } while (!std::ranges::all_of(wanted, [](float x) { return std::isfinite(x); }));
    testing::for_every_target([&] {
      std::ranges::fill(got, NAN);
      unpack(format, row.data(), static_cast<std::int64_t>(got.size()), got.data());
      CHECK(std::memcmp(got.data(), wanted.data(), got.size() * sizeof(float)) == 0);
    });
  }
}

TEST_CASE("kernels/weight product: rows that are no whole blocks are a mistake of the caller") {
  Operands o({1, 3, 64}, WeightFormat::q8_0);
  o.product.depth = 48;
  CHECK_THROWS_AS(product(o.product), std::logic_error);
}

// Scratch on the stack was up to 1.1 MiB: `ulimit -s 1024` ended a run with SIGSEGV.
TEST_CASE("kernels/weight product: any format and number of tokens within 128 KiB of stack") {
  pthread_attr_t small;
  REQUIRE(pthread_attr_init(&small) == 0);
  REQUIRE(pthread_attr_setstacksize(&small, std::size_t{128} * 1024) == 0);
  pthread_t thread{};
  const auto run = [](void*) -> void* {
    for (const model::WeightFormat format : model::kWeightFormats) {
      constexpr std::int64_t kDepth = 2048;
      constexpr std::int64_t kOutputs = 33;
      const std::vector<float> values = testing::random_floats(kDepth * kOutputs, 1);
      const std::int64_t row = model::row_bytes(format, kDepth);
      std::vector<std::byte> w(static_cast<std::size_t>(row * kOutputs));
      encode(format, values, w);
      for (const std::int64_t tokens : {1, 7, 40}) {
        const std::vector<float> x = testing::random_floats(kDepth * tokens, 2);
        std::vector<float> y(static_cast<std::size_t>(kOutputs * tokens));
        const WeightProduct p{x.data(), kDepth,   w.data(), row,      format,
                              y.data(), kOutputs, tokens,   kOutputs, kDepth};
        product(p);
      }
    }
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &small, run, nullptr) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
  CHECK(pthread_attr_destroy(&small) == 0);
}

}  // namespace tandem::exec::weight_product_test
