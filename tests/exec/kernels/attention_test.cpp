#include "exec/kernels/attention.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "exec/kernels/cached_row.hpp"
#include "exec/weights/formats/convert.hpp"
#include "tests/exec/kernels/kernel_test_support.hpp"
#include "tests/support/sampled.hpp"

namespace tandem::exec::attention_test {
namespace {

using model::CacheFormat;
using testing::as_matrix;
using testing::check_close;
using testing::Matrix;
using testing::random_floats;

struct Case {
  std::int64_t rows, group, head_dim, past;
  model::Range keys = model::Range{0, 1 << 30};
  float spread = 1.0F;  // of the queries: large makes softmax sharp
};

// Keys and values in blocks that lie in memory as `order` says; what nobody wrote is not a number.
struct Blocks {
  Blocks(std::vector<std::int32_t> order, std::int64_t block_positions, std::int64_t head_dim,
         CacheFormat format = CacheFormat::f32)
      : order_(std::move(order)),
        memory_(order_.size() *
                    static_cast<std::size_t>(block_bytes(format, block_positions, head_dim)),
                std::byte{0xff}),
        head_{memory_.data(), order_.data(), block_positions, format} {}
  [[nodiscard]] const CachedHead& head() const { return head_; }
  // The head with scales, of zeros.
  [[nodiscard]] CachedHead scaled(HeadScales& scales) {
    std::ranges::fill(memory_, std::byte{0});
    CachedHead head = head_;
    head.scales = &scales;
    head.head_blocks = std::ssize(order_);
    return head;
  }

 private:
  std::vector<std::int32_t> order_;
  std::vector<std::byte> memory_;  // all bits set: not a number, or a scale that is none
  CachedHead head_;
};

// Of the positions from `first`.
void store(const Case& c, const std::vector<float>& k, const std::vector<float>& v,
           const CachedHead& head, std::int64_t first = 0) {
  for (std::int64_t p = first; p < c.past + c.rows; ++p) {
    CHECK(store_key(k.data() + p * c.head_dim, p, head, c.head_dim));
    CHECK(store_value(v.data() + p * c.head_dim, p, head, c.head_dim));
  }
}

std::vector<float> attended(const Case& c, const std::vector<float>& q, const CachedHead& head) {
  const std::int64_t width = c.group * c.head_dim;
  std::vector<float> y(static_cast<std::size_t>(c.rows * width), 77.0F);
  attend({.queries = q.data(),
          .query_stride = width,
          .cache = head,
          .output = y.data(),
          .output_stride = width,
          .rows = c.rows,
          .group = c.group,
          .head_dim = c.head_dim,
          .first_key = c.keys.begin,
          .end_key = c.keys.end,
          .past = c.past});
  return y;
}

// By blocks of 64 positions, the last first. As many blocks as the positions take, or one that has
// them all, give the same bits.
std::vector<float> attended(const Case& c, const std::vector<float>& q, const std::vector<float>& k,
                            const std::vector<float>& v, CacheFormat format = CacheFormat::f32) {
  const std::int64_t count = (c.past + c.rows + kBlockGranule - 1) / kBlockGranule;
  std::vector<std::int32_t> order(static_cast<std::size_t>(count));
  std::iota(order.rbegin(), order.rend(), 0);
  const Blocks blocks(order, kBlockGranule, c.head_dim, format);
  const Blocks contiguous({0}, count * kBlockGranule, c.head_dim, format);
  store(c, k, v, blocks.head());
  store(c, k, v, contiguous.head());
  std::vector<float> y = attended(c, q, blocks.head());
  CHECK(y == attended(c, q, contiguous.head()));
  return y;
}

// What an F16 cache has of `values`.
std::vector<float> as_half(const std::vector<float>& values) {
  std::vector<float> rounded(values.size());
  std::vector<std::byte> bits(2 * values.size());
  from_f32(model::DType::f16, values, bits);
  to_f32(model::DType::f16, bits, rounded);
  return rounded;
}

// What a head has of the keys and values that it was given, [positions, head_dim] each.
struct Kept {
  Kept(const Case& c, const CachedHead& head)
      : keys(static_cast<std::size_t>((c.past + c.rows) * c.head_dim)), values(keys.size()) {
    for (std::int64_t p = 0; p < c.past + c.rows; ++p) {
      load_key(head, p, c.head_dim, keys.data() + p * c.head_dim);
      load_value(head, p, c.head_dim, values.data() + p * c.head_dim);
    }
  }
  std::vector<float> keys;
  std::vector<float> values;
};

Kept kept_of(const Case& c, const std::vector<float>& k, const std::vector<float>& v,
             CacheFormat format) {
  const std::int64_t count = (c.past + c.rows + kBlockGranule - 1) / kBlockGranule;
  const Blocks blocks({0}, count * kBlockGranule, c.head_dim, format);
  store(c, k, v, blocks.head());
  return {c, blocks.head()};
}

// Attention over each type of cache: softmax of whole rows of scores, in double, of the numbers
// that it keeps, and the bits of F32's sums of them.
void check(const Case& c) {
  CAPTURE(c.rows);
  CAPTURE(c.group);
  CAPTURE(c.head_dim);
  CAPTURE(c.past);
  CAPTURE(c.keys.begin);
  CAPTURE(c.keys.end);
  const std::int64_t positions = c.past + c.rows;
  std::vector<float> q = random_floats(c.rows * c.group * c.head_dim, 4);
  for (float& value : q) value *= c.spread;
  const std::vector<float> k = random_floats(positions * c.head_dim, 5);
  const std::vector<float> v = random_floats(positions * c.head_dim, 6);
  // A score's error moves the weights by as much, relatively.
  const double score_error = static_cast<double>(c.spread) * testing::tolerance(c.head_dim);
  for (const CacheFormat format : testing::caches_of(c.head_dim)) {
    CAPTURE(to_string(format));
    const Kept kept = kept_of(c, k, v, format);
    const Matrix wanted = testing::causal_attention(
        as_matrix(q, c.rows, c.group * c.head_dim), as_matrix(kept.keys, positions, c.head_dim),
        as_matrix(kept.values, positions, c.head_dim), c.head_dim, c.group, c.past, c.keys);
    testing::for_every_target([&] {
      const std::vector<float> got = attended(c, q, k, v, format);
      check_close(got, wanted, 2.0 * score_error + testing::tolerance(positions));
      CHECK(got == attended(c, q, kept.keys, kept.values));
    });
  }
}

}  // namespace

TEST_CASE("kernels/attention: equals softmax of the whole score row") {
  testing::Sampled taken(11);
  for (const std::int64_t rows : {1, 2, 7, 33}) {
    for (const std::int64_t group : {1, 3, 5, 8, 13}) {
      for (const std::int64_t head_dim : {2, 6, 16, 32, 64, 80, 96, 100}) {
        for (const std::int64_t past : {0, 1, 15, 16, 63, 64, 131}) {
          if (taken()) check({rows, group, head_dim, past});
        }
      }
    }
  }
}

TEST_CASE("kernels/attention: a query's bits are the same however many share its pass") {
  constexpr std::int64_t kPast = 150;
  for (const std::int64_t group : {1, 2, 5}) {
    for (const std::int64_t head_dim : {16, 64, 128, 200}) {
      for (const std::int64_t rows : {2, 3, 7, 9}) {
        CAPTURE(group);
        CAPTURE(head_dim);
        CAPTURE(rows);
        const Case all{rows, group, head_dim, kPast};
        std::vector<float> q = random_floats(rows * group * head_dim, 4);
        for (float& value : q) value *= 5.0F;  // so that largest scores grow from block to block
        const std::vector<float> k = random_floats((kPast + rows) * head_dim, 5);
        const std::vector<float> v = random_floats((kPast + rows) * head_dim, 6);
        testing::for_every_target([&] {
          const std::vector<float> together = attended(all, q, k, v);
          for (std::int64_t row = 0; row < rows; ++row) {
            const auto at = [&](const std::vector<float>& of) {
              return std::vector<float>(of.begin() + row * group * head_dim,
                                        of.begin() + (row + 1) * group * head_dim);
            };
            CHECK(attended({1, group, head_dim, kPast + row}, at(q), k, v) == at(together));
          }
        });
      }
    }
  }
}

TEST_CASE("kernels/attention: a range of keys is attended alone") {
  for (const model::Range keys :
       {model::Range{0, 1}, {5, 6}, {17, 64}, {63, 65}, {64, 128}, {100, 131}, {130, 1 << 30}}) {
    check({3, 4, 32, 129, keys});
  }
}

TEST_CASE("kernels/attention: a row that sees no key becomes zero") {
  const Case c{2, 1, 8, 3, {4, 9}};
  const auto q = random_floats(16, 1);
  const auto k = random_floats(40, 2);
  const auto y = attended(c, q, k, k);
  for (std::size_t i = 0; i < 8; ++i) CHECK(y[i] == 0.0F);
  for (std::size_t i = 8; i < 16; ++i) CHECK(y[i] == doctest::Approx(k[32 + i - 8]));
}

TEST_CASE("kernels/attention: large scores neither overflow nor vanish") {
  check({1, 2, 64, 200, {0, 1 << 30}, 100.0F});
  SUBCASE("scores of 1e4 in one key, -1e4 in all others: that key's value") {
    const Case c{1, 1, 2, 99};
    std::vector<float> k(200, -1e4F);
    k[140] = 1e4F;
    k[141] = 1e4F;
    const auto v = random_floats(200, 3);
    const auto y = attended(c, {1.0F, 1.0F}, k, v);
    CHECK(y[0] == v[140]);
    CHECK(y[1] == v[141]);
  }
}

TEST_CASE("kernels/attention: memory of positions that are not attended is not used") {
  const auto q = random_floats(96, 1);
  const auto k = random_floats(std::int64_t{100} * 32, 2);
  const Case c{1, 3, 32, 99, {70, 1 << 30}};
  for (const CacheFormat format : model::kCacheFormats) {
    const Blocks blocks({1, 0}, kBlockGranule, 32, format);
    store(c, k, k, blocks.head(), 70);
    const std::vector<float> y = attended(c, q, blocks.head());
    CHECK(std::ranges::none_of(y, [](float value) { return std::isnan(value); }));
  }
}

TEST_CASE("kernels/cached row: what was stored comes back as the type has it") {
  constexpr std::int64_t kDim = 6;
  const std::vector<float> row{1.0F / 3.0F, -65504.0F, 65519.996F, 0x1p-25F, -0x1.8p-24F, 2049.0F};
  for (const CacheFormat format : {CacheFormat::f32, CacheFormat::f16}) {
    const Blocks blocks({0, 1}, kBlockGranule, kDim, format);
    const std::vector<float> wanted = format == CacheFormat::f32 ? row : as_half(row);
    for (const std::int64_t position : {0, 15, 16, 63, 64, 127}) {
      std::vector<float> got(kDim);
      CHECK(store_key(row.data(), position, blocks.head(), kDim));
      CHECK(store_value(row.data(), position, blocks.head(), kDim));
      load_key(blocks.head(), position, kDim, got.data());
      CHECK(got == wanted);
      load_value(blocks.head(), position, kDim, got.data());
      CHECK(got == wanted);
    }
  }
  SUBCASE("1/3, the largest, what rounds to it, ties to even among the smallest and beyond 2048") {
    CHECK(as_half(row) ==
          std::vector<float>{0x1.554p-2F, -65504.0F, 65504.0F, 0.0F, -0x1p-23F, 2048.0F});
  }
}

TEST_CASE("kernels/cached row: numbers that F16 does not have are told") {
  constexpr std::int64_t kDim = 5;
  const Blocks half({0}, kBlockGranule, kDim, CacheFormat::f16);
  const Blocks whole({0}, kBlockGranule, kDim, CacheFormat::f32);
  for (const float bad : {65520.0F, -65520.0F, 1e30F, std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    for (std::size_t i = 0; i < kDim; ++i) {
      std::vector<float> row(kDim, 1.0F);
      row[i] = bad;
      CHECK(!store_key(row.data(), 3, half.head(), kDim));
      CHECK(!store_value(row.data(), 3, half.head(), kDim));
      CHECK(store_key(row.data(), 3, whole.head(), kDim));
      CHECK(store_value(row.data(), 3, whole.head(), kDim));
    }
  }
}

// A head whose numbers are scaled by powers of two is the same head: no bit of attention, of what
// keys weigh and of what is loaded differs from that over F32 numbers rounded as the head has them.
TEST_CASE("kernels/cached row: what exceeds F16 is scaled, and attention has the bits of F32's") {
  const Case c{5, 3, 16, 140};
  const std::int64_t positions = c.past + c.rows;
  const auto count = static_cast<std::size_t>(positions * c.head_dim);
  const std::vector<float> q = random_floats(c.rows * c.group * c.head_dim, 4);
  for (const float large : {65504.0F, 65520.0F, 1e6F, 0x1p90F, 3e38F}) {
    CAPTURE(large);
    std::vector<float> k = random_floats(positions * c.head_dim, 5);
    std::vector<float> v = random_floats(positions * c.head_dim, 6);
    v[17] = large;                            // early, so that later ones are rounded to its scale
    v[count - 3] = -large;                    // and late, so that earlier ones are scaled
    k[count / 2] = std::min(large, 0x1p40F);  // scores stay finite
    Blocks blocks({2, 0, 1}, kBlockGranule, c.head_dim, CacheFormat::f16);
    HeadScales scales;
    const CachedHead head = blocks.scaled(scales);
    store(c, k, v, head);
    CHECK((scales.value > 1.0F) == (large > 65519.0F));
    CHECK(std::exp2(std::round(std::log2(scales.value))) == scales.value);
    const Kept kept(c, head);
    for (std::size_t i = 0; i < count; ++i) {
      // Half a step of F16, and half of its smallest one where it was scaled after that.
      const auto error = [](float kept, float stored, float scale) {
        return std::abs(kept - stored) <= std::abs(stored) * 0x1p-11F + scale * 0x1p-25F;
      };
      CHECK(error(kept.keys[i], k[i], scales.key));
      INFO(i, " ", kept.values[i], " ", v[i], " ", scales.value);
      CHECK(error(kept.values[i], v[i], scales.value));
    }
    const Blocks whole({1, 2, 0}, kBlockGranule, c.head_dim);
    store(c, kept.keys, kept.values, whole.head());
    testing::for_every_target([&] { CHECK(attended(c, q, head) == attended(c, q, whole.head())); });
  }
}

TEST_CASE("kernels/cached row: no scale holds numbers that are not finite") {
  Blocks blocks({0}, kBlockGranule, 4, CacheFormat::f16);
  HeadScales scales;
  const CachedHead head = blocks.scaled(scales);
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const std::vector<float> row{1.0F, bad, 1e9F, 2.0F};
    CHECK(!store_key(row.data(), 3, head, 4));
    CHECK(!store_value(row.data(), 3, head, 4));
  }
  CHECK(scales.key == 1.0F);
  CHECK(scales.value == 1.0F);
}

}  // namespace tandem::exec::attention_test
