// Every kernel of the reference against the tuned one, with each instruction set.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "exec/kernels/cached_row.hpp"
#include "exec/kernels/kernel_table.hpp"
#include "exec/weights/formats/block_codec.hpp"
#include "tests/exec/kernels/kernel_test_support.hpp"

namespace tandem::test::eigen_kernels_test {
namespace {

using exec::Attention;
using exec::eigen_kernels;
using exec::Kernels;
using exec::tuned_kernels;
using model::CacheFormat;
using model::WeightFormat;
using testing::as_matrix;
using testing::check_close;
using testing::random_floats;
using testing::tolerance;

static_assert(sizeof(Kernels) == 17 * sizeof(void*), "a kernel was added: compare it below, too");

constexpr std::int64_t kSizes[] = {1, 2, 3, 7, 8, 16, 17, 31, 64, 127, 768, 1009};
constexpr std::uint32_t kSeeds[] = {1, 20, 300};
constexpr double kEpsilon = 0x1p-23;

std::vector<float> scaled(std::vector<float> values, float by) {
  for (float& value : values) value *= by;
  return values;
}

// Row `row` of rows of `stride` numbers.
std::vector<float> part(const std::vector<float>& rows, std::int64_t row, std::int64_t stride) {
  return {rows.begin() + row * stride, rows.begin() + (row + 1) * stride};
}

// Both errors count.
void check_equal(const std::vector<float>& tuned, const std::vector<float>& eigen, double limit) {
  check_close(tuned, as_matrix(eigen, 1, static_cast<std::int64_t>(eigen.size())), 2.0 * limit);
}

// make(kernels) returns numbers, within `limit` of the exact ones whatever the kernels.
template <class Make>
void compare(double limit, const Make& make) {
  const std::vector<float> eigen = make(eigen_kernels());
  testing::for_every_target([&] { check_equal(make(tuned_kernels()), eigen, limit); });
}

// A product whose rows of inputs and results are apart, beyond which nothing may be written.
struct ProductCase {
  std::int64_t tokens, outputs, depth;
  std::int64_t before = 0;
  std::int64_t after = 0;
};

class Factors {
 public:
  Factors(ProductCase c, WeightFormat format, std::uint32_t seed)
      : c_(c),
        format_(format),
        row_(model::row_bytes(format, c.depth)),
        x_(random_floats(c.tokens * x_stride(), seed)),
        w_(static_cast<std::size_t>(row_ * c.outputs)) {
    std::vector<float> values = random_floats(c.outputs * c.depth, seed + 1);
    exec::encode(format, values, w_);
    exec::decode(format, w_, values);
    for (const float value : values) largest_ = std::max(largest_, std::abs(value));
  }
  [[nodiscard]] std::vector<float>& inputs() { return x_; }
  [[nodiscard]] std::int64_t x_stride() const { return c_.depth - c_.before - c_.after + 3; }
  // Formats with least numbers have two terms a weight, each as large as its largest.
  [[nodiscard]] double limit() const {
    const double terms = format_ == WeightFormat::q4_k || format_ == WeightFormat::q5_k ? 3.0 : 1.0;
    return terms * std::max(1.0, static_cast<double>(largest_)) * tolerance(c_.depth);
  }
  [[nodiscard]] std::int64_t y_stride() const { return c_.outputs + 2; }
  [[nodiscard]] std::vector<float> product(const Kernels& kernels) const {
    return product(kernels, 0, c_.tokens);
  }
  // Of `tokens` from `first` on.
  [[nodiscard]] std::vector<float> product(const Kernels& kernels, std::int64_t first,
                                           std::int64_t tokens) const {
    std::vector<float> y(static_cast<std::size_t>(tokens * y_stride()), 9.0F);
    kernels.product({.x = x_.data() + first * x_stride(),
                     .x_stride = x_stride(),
                     .w = w_.data(),
                     .w_stride = row_,
                     .format = format_,
                     .y = y.data(),
                     .y_stride = y_stride(),
                     .tokens = tokens,
                     .outputs = c_.outputs,
                     .depth = c_.depth,
                     .before = c_.before,
                     .after = c_.after});
    return y;
  }

 private:
  ProductCase c_;
  WeightFormat format_;
  std::int64_t row_;
  std::vector<float> x_;
  std::vector<std::byte> w_;
  float largest_ = 0.0F;
};

struct AttentionCase {
  std::int64_t rows, group, head_dim, past;
  model::Range keys = model::Range{0, 1 << 30};
  std::int64_t window = 0;
  float cap = 0.0F;
  float scale = 0.0F;
  float spread = 1.0F;  // of the queries: large makes softmax sharp
  bool causal = true;
  [[nodiscard]] std::int64_t positions() const { return past + rows; }
};

// Keys and values in blocks, the last first, and queries in rows that are apart.
class Head {
 public:
  Head(const AttentionCase& c, CacheFormat format, std::uint32_t seed)
      : c_(c),
        format_(format),
        queries_(scaled(random_floats(c.rows * stride(), seed), c.spread)),
        order_(static_cast<std::size_t>((c.positions() + exec::kBlockGranule - 1) /
                                        exec::kBlockGranule)),
        memory_(order_.size() *
                    static_cast<std::size_t>(exec::block_numbers(exec::kBlockGranule, c.head_dim) *
                                             model::cache_element_bytes(format)),
                std::byte{0xff}) {  // not a number of either type
    std::iota(order_.rbegin(), order_.rend(), 0);
    const std::vector<float> keys = random_floats(c.positions() * c.head_dim, seed + 1);
    const std::vector<float> values = random_floats(c.positions() * c.head_dim, seed + 2);
    for (std::int64_t p = 0; p < c.positions(); ++p) {
      REQUIRE(exec::store_key(keys.data() + p * c.head_dim, p, cached(), c.head_dim));
      REQUIRE(exec::store_value(values.data() + p * c.head_dim, p, cached(), c.head_dim));
    }
  }
  // The error of a score, which moves its weight by as much, relatively.
  [[nodiscard]] double score_error() const {
    const double scale = c_.scale > 0.0F ? static_cast<double>(c_.scale)
                                         : 1.0 / std::sqrt(static_cast<double>(c_.head_dim));
    return static_cast<double>(c_.spread) * scale * tolerance(c_.head_dim) +
           4.0 * kEpsilon * static_cast<double>(c_.cap);
  }
  [[nodiscard]] double limit() const { return 2.0 * score_error() + tolerance(c_.positions()); }

  // [rows, group, head_dim], rows apart, then [rows, group, 2], rows apart.
  struct Attended {
    std::vector<float> output;
    std::vector<float> softmax;
  };
  Attended attended(const Kernels& kernels, bool with_softmax = true) {
    return attended(kernels, 0, c_.rows, with_softmax);
  }
  // Of `rows` from `first` on.
  Attended attended(const Kernels& kernels, std::int64_t first, std::int64_t rows,
                    bool with_softmax = true) {
    Attended made{std::vector<float>(static_cast<std::size_t>(rows * stride()), 9.0F),
                  std::vector<float>(static_cast<std::size_t>(rows * told()), 9.0F)};
    Attention a = operands();
    a.queries += first * stride();
    a.rows = rows;
    a.past += first;
    a.output = made.output.data();
    a.output_stride = stride();
    if (with_softmax) a.softmax = made.softmax.data();
    kernels.attend(a);
    return made;
  }
  // Added to ones, each key's two numbers after the one before.
  std::vector<float> weighed(const Kernels& kernels, std::vector<float> softmax) {
    const std::int64_t end = std::min<std::int64_t>(c_.keys.end, c_.positions());
    std::vector<float> sums(static_cast<std::size_t>(2 * (end - c_.keys.begin)), 1.0F);
    Attention a = operands();
    a.end_key = end;
    a.softmax = softmax.data();
    kernels.weigh_keys(a, sums.data(), 2);
    return sums;
  }

 private:
  [[nodiscard]] std::int64_t stride() const { return c_.group * c_.head_dim + 1; }
  [[nodiscard]] std::int64_t told() const { return c_.group * 2 + 1; }
  [[nodiscard]] exec::CachedHead cached() {
    return {memory_.data(), order_.data(), exec::kBlockGranule, format_};
  }
  Attention operands() {
    return {.queries = queries_.data(),
            .query_stride = stride(),
            .cache = cached(),
            .rows = c_.rows,
            .group = c_.group,
            .head_dim = c_.head_dim,
            .first_key = c_.keys.begin,
            .end_key = std::min<std::int64_t>(c_.keys.end, c_.positions()),
            .past = c_.causal ? c_.past : c_.positions(),
            .window = c_.window,
            .scale = c_.scale,
            .cap = c_.cap,
            .softmax_stride = told()};
  }

  AttentionCase c_;
  CacheFormat format_;
  std::vector<float> queries_;
  std::vector<std::int32_t> order_;
  std::vector<std::byte> memory_;
};

template <class Body>
void for_heads(const Body& body) {
  const std::vector<AttentionCase> cases{
      {1, 1, 6, 0},
      {1, 1, 2, 150},
      {1, 4, 16, 200},                                // grouped queries
      {7, 3, 20, 0},                                  // a prompt: no row sees all keys
      {33, 5, 80, 63},                                // more rows than a pass has
      {5, 2, 64, 131, {0, 1 << 30}, 40},              // a window, across blocks
      {3, 2, 8, 300, {0, 1 << 30}, 1},                // which leaves its own position
      {4, 8, 16, 90, {0, 1 << 30}, 0, 2.0F},          // a cap
      {3, 5, 12, 130, {0, 1 << 30}, 70, 1.5F, 0.3F},  // with a window and a scale
      {2, 13, 100, 131, {17, 64}},                    // some of the keys
      {3, 4, 32, 129, {130, 132}},                    // of which not every row sees one
      {2, 3, 10, 129, {100, 131}, 5},
      {1, 2, 64, 200, {0, 1 << 30}, 0, 0.0F, 0.0F, 100.0F},
      {9, 2, 8, 60, {0, 1 << 30}, 0, 0.0F, 0.0F, 1.0F, false},   // without a causal mask
      {9, 2, 8, 60, {0, 1 << 30}, 12, 0.0F, 0.0F, 1.0F, false},  // with a window
  };
  for (const AttentionCase& c : cases) {
    for (const CacheFormat format : model::kCacheFormats) {
      for (const std::uint32_t seed : kSeeds) {
        CAPTURE(c.rows);
        CAPTURE(c.group);
        CAPTURE(c.head_dim);
        CAPTURE(c.keys.begin);
        CAPTURE(c.window);
        CAPTURE(to_string(format));
        CAPTURE(seed);
        Head head(c, format, seed);
        body(c, head);
      }
    }
  }
}

}  // namespace

TEST_CASE("kernels/reference: products in every format, of odd shapes") {
  for (const WeightFormat format : model::kWeightFormats) {
    const std::int64_t block = model::block_of(format).elements;
    std::vector<ProductCase> cases;
    for (const std::int64_t tokens : {1, 2, 5, 8, 9, 16, 17, 33}) {
      for (const std::int64_t outputs : {1, 7, 50})
        cases.push_back({tokens, outputs, block * (tokens % 3 + 1) + (block == 1 ? outputs : 0)});
    }
    cases.push_back({3, 5, block == 1 ? 1031 : 2048});
    if (block > 1) {
      cases.push_back({1, 5, 2 * block, 3, 0});
      cases.push_back({20, 5, 2 * block, 0, 7});
      cases.push_back({3, 5, 3 * block, 31, 18});
    }
    for (const ProductCase& c : cases) {
      for (const std::uint32_t seed : kSeeds) {
        CAPTURE(to_string(format));
        CAPTURE(c.tokens);
        CAPTURE(c.outputs);
        CAPTURE(c.depth);
        CAPTURE(c.before);
        CAPTURE(seed);
        const Factors factors(c, format, seed);
        compare(factors.limit(), [&](const Kernels& kernels) { return factors.product(kernels); });
      }
    }
  }
}

TEST_CASE("kernels/reference: a product without a depth is zero, without outputs nothing") {
  const std::vector<float> x(4, 1.0F);
  for (const std::int64_t tokens : {1, 3}) {
    std::vector<float> y(6, 9.0F);
    const exec::WeightProduct p{
        .x = x.data(), .y = y.data(), .y_stride = 2, .tokens = tokens, .outputs = 2};
    eigen_kernels().product(p);
    for (std::size_t i = 0; i < y.size(); ++i)
      CHECK(y[i] == (static_cast<std::int64_t>(i) < 2 * tokens ? 0.0F : 9.0F));
    y.assign(6, 9.0F);
    eigen_kernels().product(p.slice(1, 1));
    CHECK(y == std::vector<float>(6, 9.0F));
  }
}

TEST_CASE("kernels/reference: inputs in 8 bits that are tiny, infinite or not numbers") {
  for (const WeightFormat format : model::kWeightFormats) {
    if (!model::multiplies_integers(format)) continue;
    CAPTURE(to_string(format));
    const ProductCase c{5, 3, 512};
    Factors factors(c, format, 4);
    const auto row = [&](std::int64_t token) {
      return factors.inputs().begin() + token * factors.x_stride();
    };
    row(0)[70] = std::numeric_limits<float>::infinity();
    row(1)[3] = std::numeric_limits<float>::quiet_NaN();
    for (std::int64_t k = 32; k < 64; ++k) row(2)[k] *= 0x1p-101F;
    std::fill_n(row(3), 64, 0.0F);
    std::vector<float> eigen = factors.product(eigen_kernels());
    testing::for_every_target([&] {
      std::vector<float> tuned = factors.product(tuned_kernels());
      for (std::size_t i = 0; i < tuned.size(); ++i) {
        const bool number = i >= 10 || i % 5 >= 3;  // tokens 0 and 1 have none but padding
        CHECK(std::isnan(tuned[i]) == !number);
        CHECK(std::isnan(eigen[i]) == !number);
      }
      check_equal({tuned.begin() + 10, tuned.end()}, {eigen.begin() + 10, eigen.end()},
                  factors.limit());
    });
  }
}

TEST_CASE("kernels/reference: attention with groups, windows, caps, scales, parts of the keys") {
  for_heads([](const AttentionCase& c, Head& head) {
    const Head::Attended eigen = head.attended(eigen_kernels());
    CHECK(head.attended(eigen_kernels(), false).output == eigen.output);
    testing::for_every_target([&] {
      const Head::Attended tuned = head.attended(tuned_kernels());
      check_equal(tuned.output, eigen.output, head.limit());
      const std::size_t row = eigen.softmax.size() / static_cast<std::size_t>(c.rows);
      for (std::size_t i = 0; i < eigen.softmax.size(); ++i) {
        if (i % row % 2 == 1 || i % row + 1 == row) {  // a sum, or padding
          const double limit = 2.0 * head.limit() * (1.0 + static_cast<double>(eigen.softmax[i]));
          CHECK(std::abs(static_cast<double>(tuned.softmax[i] - eigen.softmax[i])) <= limit);
        } else if (eigen.softmax[i + 1] == 0.0F) {
          CHECK(tuned.softmax[i] == eigen.softmax[i]);  // no key: -infinity
        } else {
          CHECK(std::abs(static_cast<double>(tuned.softmax[i] - eigen.softmax[i])) <=
                2.0 * head.score_error());
        }
      }
    });
  });
}

TEST_CASE("kernels/reference: the same bits beside any other tokens and rows") {
  for (const WeightFormat format : model::kWeightFormats) {
    const std::int64_t block = model::block_of(format).elements;
    const ProductCase c{33, 5, block == 1 ? 77 : 3 * block};
    const Factors factors(c, format, 2);
    const std::vector<float> all = factors.product(eigen_kernels());
    for (std::int64_t token = 0; token < c.tokens; ++token) {
      CAPTURE(to_string(format));
      CAPTURE(token);
      CHECK(factors.product(eigen_kernels(), token, 1) == part(all, token, factors.y_stride()));
    }
  }
  for_heads([](const AttentionCase& c, Head& head) {
    const Head::Attended all = head.attended(eigen_kernels());
    for (std::int64_t row = 0; row < c.rows; ++row) {
      CAPTURE(row);
      const Head::Attended alone = head.attended(eigen_kernels(), row, 1);
      CHECK(alone.output == part(all.output, row, std::ssize(alone.output)));
      CHECK(alone.softmax == part(all.softmax, row, std::ssize(alone.softmax)));
    }
  });
}

TEST_CASE("kernels/reference: what keys weigh") {
  for_heads([](const AttentionCase& c, Head& head) {
    const std::vector<float> softmax = head.attended(eigen_kernels()).softmax;
    // Every row and head adds one at most.
    const double most = static_cast<double>(1 + c.rows * c.group);
    compare(most * (head.limit() + tolerance(c.rows * c.group)),
            [&](const Kernels& kernels) { return head.weighed(kernels, softmax); });
  });
}

TEST_CASE("kernels/reference: parts that are merged, some without keys") {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  for (const std::int64_t head_dim : kSizes) {
    for (const std::uint32_t seed : kSeeds) {
      const std::vector<float> from = random_floats(4 * head_dim, seed);
      const std::vector<float> into = random_floats(4 * head_dim, seed + 1);
      compare(8.0 * kEpsilon * 90.0, [&](const Kernels& kernels) {
        std::vector<float> x = from;
        std::vector<float> y = into;
        std::vector<float> more{1.0F, 3.0F, kNone, 0.0F, 2.5F, 7.0F, -40.0F, 1.0F};
        std::vector<float> all{2.0F, 1.5F, 0.5F, 4.0F, kNone, 0.0F, 50.0F, 2.0F};
        kernels.merge({x.data(), more.data()}, {y.data(), all.data()}, 4, head_dim);
        CHECK(x == from);
        y.insert(y.end(), all.begin(), all.end());
        return y;
      });
    }
  }
}

TEST_CASE("kernels/reference: norms") {
  for (const std::int64_t n : kSizes) {
    for (const std::uint32_t seed : kSeeds) {
      CAPTURE(n);
      CAPTURE(seed);
      const std::vector<float> x = random_floats(n, seed);
      const std::vector<float> weight = random_floats(n, seed + 1);
      const std::vector<float> bias = random_floats(n, seed + 2);
      // One large number is sqrt(n) times the mean.
      const double limit = std::sqrt(static_cast<double>(n)) * 4.0 * tolerance(n);
      for (const bool in_place : {false, true}) {
        compare(limit, [&](const Kernels& kernels) {
          std::vector<float> y = in_place ? x : std::vector<float>(x.size(), 9.0F);
          kernels.rms_norm(in_place ? y.data() : x.data(), weight.data(), n, 1e-5F, y.data());
          return y;
        });
        compare(limit * 4.0, [&](const Kernels& kernels) {
          std::vector<float> y = in_place ? x : std::vector<float>(x.size(), 9.0F);
          kernels.layer_norm(in_place ? y.data() : x.data(), weight.data(), bias.data(), n, 1e-2F,
                             y.data());
          return y;
        });
      }
    }
  }
}

TEST_CASE("kernels/reference: activation functions, also far from zero") {
  using model::Activation;
  for (const Activation activation :
       {Activation::relu, Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
    for (const std::int64_t n : kSizes) {
      for (const float scale : {1.0F, 6.0F, 300.0F}) {
        for (const bool biased : {false, true}) {
          CAPTURE(static_cast<int>(activation));
          CAPTURE(n);
          CAPTURE(scale);
          const std::vector<float> x = scaled(random_floats(n, 3), scale);
          const std::vector<float> bias = random_floats(n, 4);
          compare(8.0 * kEpsilon * static_cast<double>(1.0F + scale), [&](const Kernels& kernels) {
            std::vector<float> y = x;
            kernels.activate(activation, biased ? bias.data() : nullptr, n, y.data());
            return y;
          });
        }
      }
    }
  }
}

TEST_CASE("kernels/reference: sums, gates, scales, caps and rotations of a row") {
  for (const std::int64_t n : kSizes) {
    for (const std::uint32_t seed : kSeeds) {
      CAPTURE(n);
      CAPTURE(seed);
      const std::vector<float> x = scaled(random_floats(n, seed), 20.0F);
      const std::vector<float> other = random_floats(n, seed + 1);
      const auto in_place = [&](double limit, const auto& apply) {
        compare(limit, [&](const Kernels& kernels) {
          std::vector<float> y = x;
          apply(kernels, y.data());
          return y;
        });
      };
      const double limit = 40.0 * kEpsilon;
      in_place(limit, [&](const Kernels& k, float* y) { k.add(other.data(), n, y); });
      in_place(limit, [&](const Kernels& k, float* y) { k.add_scaled(other.data(), 0.22F, n, y); });
      in_place(4.0 * limit, [&](const Kernels& k, float* y) { k.gate_with(other.data(), n, y); });
      in_place(limit, [&](const Kernels& k, float* y) { k.multiply_with(other.data(), n, y); });
      in_place(limit, [&](const Kernels& k, float* y) { k.scale_by(0.3F, n, y); });
      in_place(4.0 * limit, [&](const Kernels& k, float* y) { k.soft_cap(15.0F, n, y); });
      if (n % 2 == 0) {
        std::vector<float> cosine;
        std::vector<float> sine;
        for (const float angle : scaled(random_floats(n / 2, seed + 2), 3.0F)) {
          cosine.push_back(std::cos(angle));
          sine.push_back(std::sin(angle));
        }
        in_place(2.0 * limit, [&](const Kernels& k, float* y) {
          k.rotate(cosine.data(), sine.data(), n / 2, y);
        });
      }
      const float largest = *std::ranges::max_element(x);
      compare(tolerance(n) + 40.0 * kEpsilon * static_cast<double>(n), [&](const Kernels& k) {
        return std::vector<float>{k.exp_sum(x.data(), largest, n)};
      });
    }
  }
}

TEST_CASE("kernels/reference: names, and the set of a processor without vector instructions") {
  for (const exec::KernelSet set : exec::kKernelSets) {
    CHECK(exec::find_kernel_set(to_string(set)) == set);
    CHECK(exec::kernels_of(set).set == set);
  }
  CHECK(!exec::find_kernel_set("Eigen"));
  CHECK(eigen_kernels().instruction_sets().starts_with("Eigen 3."));
  CHECK(eigen_kernels().instruction_sets() != tuned_kernels().instruction_sets());
  CHECK(exec::kernel_set_for(HWY_EMU128 | HWY_SCALAR) == exec::KernelSet::eigen);
  CHECK(exec::kernel_set_for(HWY_AVX2 | HWY_EMU128) == exec::KernelSet::tuned);
  CHECK(exec::kernel_set_for(HWY_NEON) == exec::KernelSet::tuned);
  CHECK(exec::kernel_set_for(HWY_SSE4 | HWY_SCALAR) == exec::KernelSet::tuned);
  SUBCASE("of this processor: tuned, also while its instruction sets are limited") {
    testing::for_every_target([] { CHECK(exec::default_kernel_set() == exec::KernelSet::tuned); });
  }
}

}  // namespace tandem::test::eigen_kernels_test
