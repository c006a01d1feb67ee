// Attention over parts of the keys, and what merges them.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "exec/kernels/attention.hpp"
#include "exec/kernels/cached_row.hpp"
#include "tests/exec/kernels/kernel_test_support.hpp"

namespace tandem::exec::merge_test {
namespace {

using model::CacheFormat;
using testing::check_close;
using testing::Matrix;
using testing::random_floats;

struct Case {
  std::int64_t rows, group, head_dim, past;
  std::int64_t window = 0;
  float cap = 0.0F;
  CacheFormat format = CacheFormat::f32;
  bool causal = true;
  [[nodiscard]] std::int64_t positions() const { return past + rows; }
  [[nodiscard]] std::int64_t width() const { return group * head_dim; }
};

// Queries, and keys and values of one head in blocks, as they are stored.
struct Given {
  explicit Given(const Case& of)
      : c(of),
        q(random_floats(c.rows * c.width(), 4)),
        k(random_floats(c.positions() * c.head_dim, 5)),
        v(random_floats(c.positions() * c.head_dim, 6)),
        order(static_cast<std::size_t>((c.positions() + kBlockGranule - 1) / kBlockGranule)),
        memory(order.size() *
                   static_cast<std::size_t>(block_bytes(c.format, kBlockGranule, c.head_dim)),
               std::byte{0xff}) {
    std::iota(order.rbegin(), order.rend(), 0);
    for (std::int64_t p = 0; p < c.positions(); ++p) {
      REQUIRE(store_key(k.data() + p * c.head_dim, p, head(), c.head_dim));
      REQUIRE(store_value(v.data() + p * c.head_dim, p, head(), c.head_dim));
      load_key(head(), p, c.head_dim, k.data() + p * c.head_dim);
      load_value(head(), p, c.head_dim, v.data() + p * c.head_dim);
    }
  }
  [[nodiscard]] CachedHead head() { return {memory.data(), order.data(), kBlockGranule, c.format}; }

  Case c;
  std::vector<float> q, k, v;
  std::vector<std::int32_t> order;
  std::vector<std::byte> memory;
};

struct Attended {
  std::vector<float> y;        // [rows, group, head_dim]
  std::vector<float> softmax;  // [rows, group, 2]
};

Attended over(Given& given, model::Range keys, bool told = true) {
  const Case& c = given.c;
  Attended part{std::vector<float>(given.q.size(), 77.0F),
                std::vector<float>(static_cast<std::size_t>(c.rows * c.group * 2), 77.0F)};
  attend({.queries = given.q.data(),
          .query_stride = c.width(),
          .cache = given.head(),
          .output = part.y.data(),
          .output_stride = c.width(),
          .rows = c.rows,
          .group = c.group,
          .head_dim = c.head_dim,
          .first_key = keys.begin,
          .end_key = keys.end,
          .past = c.causal ? c.past : c.positions(),
          .window = c.window,
          .cap = c.cap,
          .softmax = told ? part.softmax.data() : nullptr,
          .softmax_stride = c.group * 2});
  return part;
}

void merge_rows(const Case& c, Attended& from, Attended& into) {
  for (std::int64_t row = 0; row < c.rows; ++row) {
    merge({from.y.data() + row * c.width(), from.softmax.data() + row * c.group * 2},
          {into.y.data() + row * c.width(), into.softmax.data() + row * c.group * 2}, c.group,
          c.head_dim);
  }
}

// In double, all scores at once: y, and of each row and head the largest score and the sum.
struct Wanted {
  Matrix y;
  Matrix softmax;
  std::vector<double> weighed{};  // of each key, by all rows and heads
};
Wanted reference(const Given& given, model::Range keys) {
  const Case& c = given.c;
  Wanted wanted{Matrix(c.rows, c.width()), Matrix(c.rows, c.group * 2),
                std::vector<double>(static_cast<std::size_t>(c.positions()))};
  for (std::int64_t i = 0; i < c.rows * c.group; ++i) {
    const std::int64_t row = i / c.group;
    const std::int64_t end =
        c.causal ? std::min<std::int64_t>(keys.end, c.past + row + 1) : std::int64_t{keys.end};
    const std::int64_t last = c.causal ? c.past + row + 1 : c.positions() + row + 1;
    const std::int64_t first =
        c.window > 0 ? std::max<std::int64_t>(keys.begin, last - c.window) : keys.begin;
    std::vector<double> scores;
    double most = -std::numeric_limits<double>::infinity();
    for (std::int64_t p = first; p < end; ++p) {
      double score = 0.0;
      for (std::int64_t k = 0; k < c.head_dim; ++k)
        score += static_cast<double>(given.q[static_cast<std::size_t>(i * c.head_dim + k)]) *
                 static_cast<double>(given.k[static_cast<std::size_t>(p * c.head_dim + k)]);
      score /= std::sqrt(static_cast<double>(c.head_dim));
      if (c.cap > 0.0F) score = static_cast<double>(c.cap) * std::tanh(score / c.cap);
      most = std::max(most, score);
      scores.push_back(score);
    }
    double sum = 0.0;
    for (double& score : scores) sum += score = std::exp(score - most);
    for (std::size_t p = 0; p < scores.size(); ++p)
      wanted.weighed[static_cast<std::size_t>(first) + p] += scores[p] / sum;
    for (std::int64_t k = 0; k < c.head_dim; ++k) {
      double y = 0.0;
      for (std::size_t p = 0; p < scores.size(); ++p) {
        const auto at = (first + static_cast<std::int64_t>(p)) * c.head_dim + k;
        y += scores[p] / sum * static_cast<double>(given.v[static_cast<std::size_t>(at)]);
      }
      wanted.y.values[static_cast<std::size_t>(i * c.head_dim + k)] = y;
    }
    wanted.softmax.values[static_cast<std::size_t>(2 * i)] = most;
    wanted.softmax.values[static_cast<std::size_t>(2 * i + 1)] = sum;
  }
  return wanted;
}

// Of part `i` of `parts` cuts of [0, positions): ascending, some of them empty.
std::vector<model::Range> cut(std::int32_t positions, std::size_t parts, std::mt19937& random) {
  std::vector<std::int32_t> cuts{0, positions};
  for (std::size_t i = 1; i < parts; ++i)
    cuts.push_back(static_cast<std::int32_t>(random() % (static_cast<unsigned>(positions) + 1)));
  std::ranges::sort(cuts);
  std::vector<model::Range> all;
  for (std::size_t i = 0; i < parts; ++i) all.push_back({cuts[i], cuts[i + 1]});
  return all;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {1, 1, 6, 150},
      {1, 4, 16, 200},            // grouped queries
      {7, 3, 20, 0},              // a prompt: no row sees all keys
      {5, 2, 64, 131, 40},        // a window, within one part or several
      {4, 8, 16, 90, 0, 2.0F},    // soft cap
      {3, 5, 12, 130, 70, 1.5F},  // both
      {6, 4, 16, 140, 0, 0.0F, CacheFormat::f16},
      {2, 2, 10, 65, 30, 3.0F, CacheFormat::f16},
      {6, 4, 64, 140, 0, 0.0F, CacheFormat::q8_0},
      {2, 2, 32, 65, 30, 3.0F, CacheFormat::q8_0},
      {9, 2, 8, 60, 0, 0.0F, CacheFormat::f32, false}};  // without a causal mask
  return all;
}

}  // namespace

TEST_CASE("kernels/merge: parts of the keys in any order give attention over all of them") {
  std::mt19937 random(11);
  for (const Case& c : cases()) {
    CAPTURE(c.head_dim);
    CAPTURE(c.window);
    Given given(c);
    const auto positions = static_cast<std::int32_t>(c.positions());
    const Wanted wanted = reference(given, {0, positions});
    const double limit = 3.0 * testing::tolerance(c.head_dim) + testing::tolerance(positions);
    for (const std::size_t parts : std::vector<std::size_t>{1, 2, 3, 5, 8}) {
      std::vector<model::Range> keys = cut(positions, parts, random);
      std::ranges::shuffle(keys, random);
      std::vector<Attended> made;
      for (const model::Range part : keys) made.push_back(over(given, part));
      // Two chains that are merged at last, as relays would.
      const std::size_t half = (parts + 1) / 2;
      for (std::size_t i = 1; i < half; ++i) merge_rows(c, made[i], made[0]);
      for (std::size_t i = half + 1; i < parts; ++i) merge_rows(c, made[i], made[half]);
      if (half < parts) merge_rows(c, made[half], made[0]);
      CAPTURE(parts);
      check_close(made[0].y, wanted.y, limit);
      for (std::size_t i = 0; i < wanted.softmax.values.size(); i += 2) {
        CHECK(made[0].softmax[i] == doctest::Approx(wanted.softmax.values[i]).epsilon(1e-5));
        CHECK(made[0].softmax[i + 1] ==
              doctest::Approx(wanted.softmax.values[i + 1]).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("kernels/weigh_keys: keys weigh what rows and heads give them, of all keys' softmax") {
  std::mt19937 random(5);
  for (const Case& c : cases()) {
    CAPTURE(c.head_dim);
    Given given(c);
    const auto positions = static_cast<std::int32_t>(c.positions());
    const Wanted wanted = reference(given, {0, positions});
    const Attended all = over(given, {0, positions});
    for (const std::size_t parts : std::vector<std::size_t>{1, 4}) {
      // Beside one another, added to what is there.
      std::vector<float> sums(static_cast<std::size_t>(2 * positions), 1.0F);
      for (const model::Range keys : cut(positions, parts, random)) {
        std::vector<float> softmax = all.softmax;
        weigh_keys({.queries = given.q.data(),
                    .query_stride = c.width(),
                    .cache = given.head(),
                    .rows = c.rows,
                    .group = c.group,
                    .head_dim = c.head_dim,
                    .first_key = keys.begin,
                    .end_key = keys.end,
                    .past = c.causal ? c.past : c.positions(),
                    .window = c.window,
                    .cap = c.cap,
                    .softmax = softmax.data(),
                    .softmax_stride = c.group * 2},
                   sums.data() + std::ptrdiff_t{2} * keys.begin, 2);
        CHECK(softmax == all.softmax);
      }
      for (std::size_t p = 0; p < wanted.weighed.size(); ++p) {
        CHECK(sums[2 * p] == doctest::Approx(1.0 + wanted.weighed[p]).epsilon(1e-5));
        CHECK(sums[2 * p + 1] == 1.0F);
      }
    }
  }
}

TEST_CASE("kernels/merge: the softmax is told beside results whose bits it does not change") {
  for (const Case& c : cases()) {
    Given given(c);
    const model::Range all{0, static_cast<std::int32_t>(c.positions())};
    CHECK(over(given, all).y == over(given, all, false).y);
  }
}

TEST_CASE("kernels/merge: a part without keys weighs nothing") {
  Given given({2, 3, 16, 70});
  const Attended all = over(given, {0, 72});
  const Attended none = over(given, {5, 5});
  CHECK(std::ranges::all_of(none.y, [](float y) { return y == 0.0F; }));
  for (std::size_t i = 0; i < none.softmax.size(); i += 2) {
    CHECK(none.softmax[i] == -std::numeric_limits<float>::infinity());
    CHECK(none.softmax[i + 1] == 0.0F);
  }
  Attended from = none;
  Attended into = all;
  merge_rows(given.c, from, into);
  CHECK(into.y == all.y);
  CHECK(into.softmax == all.softmax);
  from = all;
  into = none;
  merge_rows(given.c, from, into);
  CHECK(into.y == all.y);
  CHECK(into.softmax == all.softmax);
  from = none;
  into = none;
  merge_rows(given.c, from, into);
  CHECK(into.y == none.y);
  CHECK(into.softmax == none.softmax);
}

TEST_CASE("kernels/merge: weights are by denominators, maxima taken into account") {
  // exp(100) overflows a float: (3 e^100 y + 1 e^98 x) / (3 e^100 + e^98).
  std::vector<float> x{2.0F};
  std::vector<float> more{98.0F, 1.0F};
  std::vector<float> y{-1.0F};
  std::vector<float> told{100.0F, 3.0F};
  merge({x.data(), more.data()}, {y.data(), told.data()}, 1, 1);
  const double e = std::exp(-2.0);
  CHECK(y[0] == doctest::Approx((-3.0 + 2.0 * e) / (3.0 + e)));
  CHECK(told[0] == 100.0F);
  CHECK(told[1] == doctest::Approx(3.0 + e));
  // What lies far below leaves the bits.
  more = {-1000.0F, 64.0F};
  const float before = y[0];
  merge({x.data(), more.data()}, {y.data(), told.data()}, 1, 1);
  CHECK(y[0] == before);
}

}  // namespace tandem::exec::merge_test
