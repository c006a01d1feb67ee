// Attention and merges of the reference against the tuned ones, with each instruction set.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "exec/kernels/cached_row.hpp"
#include "tests/exec/kernels/reference_test_support.hpp"

namespace tandem::test::eigen_attention_test {
namespace {

using exec::Attention;
using exec::eigen_kernels;
using exec::Kernels;
using exec::tuned_kernels;
using model::CacheFormat;
using testing::check_equal;
using testing::compare;
using testing::kEpsilon;
using testing::kSeeds;
using testing::kSizes;
using testing::part;
using testing::random_floats;
using testing::scaled;
using testing::tolerance;

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
        memory_(order_.size() * static_cast<std::size_t>(
                                    exec::block_bytes(format, exec::kBlockGranule, c.head_dim)),
                std::byte{0xff}) {  // not a number, or a scale that is none
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
      {2, 9, 96, 131, {17, 90}, 40},
      {4, 3, 32, 90, {0, 1 << 30}, 0, 2.0F, 0.3F},
      {2, 3, 10, 129, {100, 131}, 5},
      {1, 2, 64, 200, {0, 1 << 30}, 0, 0.0F, 0.0F, 100.0F},
      {9, 2, 8, 60, {0, 1 << 30}, 0, 0.0F, 0.0F, 1.0F, false},   // without a causal mask
      {9, 2, 8, 60, {0, 1 << 30}, 12, 0.0F, 0.0F, 1.0F, false},  // with a window
  };
  for (const AttentionCase& c : cases) {
    for (const CacheFormat format : testing::caches_of(c.head_dim)) {
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

TEST_CASE("kernels/reference: attention of a row is the same bits beside any other rows") {
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

}  // namespace tandem::test::eigen_attention_test
