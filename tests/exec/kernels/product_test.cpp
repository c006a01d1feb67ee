#include "exec/kernels/product.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/exec/kernels/kernel_test_support.hpp"

namespace tandem::exec::product_test {
namespace {

using testing::as_matrix;
using testing::check_close;
using testing::Matrix;
using testing::random_floats;
using testing::times_transposed;
using testing::tolerance;

struct Case {
  std::int64_t tokens, outputs, depth;
};

constexpr Case kCases[] = {{1, 1, 1},    {1, 8, 16},   {1, 37, 131}, {2, 9, 64},
                           {3, 7, 33},   {4, 16, 48},  {5, 13, 97},  {6, 5, 17},
                           {7, 11, 768}, {8, 12, 100}, {1, 9, 3079}, {2, 17, 3079},
                           {3, 26, 384}, {5, 14, 385}, {6, 20, 769}, {8, 26, 1605}};

// Strides larger than the widths, filled with values that must not be read or written.
struct Operands {
  explicit Operands(Case c)
      : x(random_floats(c.tokens * c.depth, 1)),
        w(random_floats(c.outputs * c.depth, 2)),
        wide_x(spread(x, c.tokens, c.depth)),
        wide_w(spread(w, c.outputs, c.depth)),
        wide_y(static_cast<std::size_t>(c.tokens * (c.outputs + kGap)), kUntouched),
        product{wide_x.data(),    c.depth + kGap, wide_w.data(), c.depth + kGap, wide_y.data(),
                c.outputs + kGap, c.tokens,       c.outputs,     c.depth} {}

  static std::vector<float> spread(const std::vector<float>& packed, std::int64_t rows,
                                   std::int64_t columns) {
    std::vector<float> wide(static_cast<std::size_t>(rows * (columns + kGap)), NAN);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        wide[static_cast<std::size_t>(r * (columns + kGap) + c)] =
            packed[static_cast<std::size_t>(r * columns + c)];
      }
    }
    return wide;
  }
  // The result without its gaps, which must be untouched.
  [[nodiscard]] std::vector<float> result() const {
    std::vector<float> packed;
    std::size_t touched = 0;
    for (std::size_t i = 0; i < wide_y.size(); ++i) {
      const auto column = static_cast<std::int64_t>(i) % (product.outputs + kGap);
      if (column < product.outputs) {
        packed.push_back(wide_y[i]);
      } else if (wide_y[i] != kUntouched) {
        ++touched;
      }
    }
    CHECK(touched == 0);
    return packed;
  }

  static constexpr std::int64_t kGap = 5;
  static constexpr float kUntouched = 12345.0F;
  std::vector<float> x, w, wide_x, wide_w, wide_y;
  Product product;
};

}  // namespace

TEST_CASE("kernels/product: few rows equal the sum of products, tolerance 2 eps (depth + 8)") {
  for (const Case c : kCases) {
    CAPTURE(c.tokens);
    CAPTURE(c.outputs);
    CAPTURE(c.depth);
    const Operands few(c);
    const Matrix wanted =
        times_transposed(as_matrix(few.x, c.tokens, c.depth), as_matrix(few.w, c.outputs, c.depth));
    testing::for_every_target([&] {
      few_row_product(few.product);
      check_close(few.result(), wanted, tolerance(c.depth));
    });
  }
}

TEST_CASE("kernels/product: few rows' outputs are the same bits however they are split") {
  for (const std::int64_t tokens : {1, 2, 3, 4, 5, 8}) {
    const Case c{tokens, 53, 131};
    const Operands whole(c);
    few_row_product(whole.product);
    const Operands split(c);
    for (const auto& [begin, end] : {std::pair{0, 1}, {1, 19}, {19, 48}, {48, 53}}) {
      few_row_product(split.product.slice(begin, end));
    }
    CHECK(whole.wide_y == split.wide_y);
  }
}

TEST_CASE("kernels/product: two to eight tokens have the bits of each two of them") {
  for (const std::int64_t depth : {131, 384, 805, 3079}) {
    for (const std::int64_t tokens : {3, 4, 5, 6, 7, 8}) {
      CAPTURE(depth);
      CAPTURE(tokens);
      const Operands together({tokens, 29, depth});
      const Operands pairs({tokens, 29, depth});
      testing::for_every_target([&] {
        few_row_product(together.product);
        for (std::int64_t t = 0; t < tokens; ++t) {
          Product pair = pairs.product;
          const std::int64_t from = t + 1 < tokens ? t : t - 1;
          pair.x += from * pair.x_stride;
          pair.y += from * pair.y_stride;
          pair.tokens = 2;
          few_row_product(pair);
        }
        CHECK(together.wide_y == pairs.wide_y);
      });
    }
  }
}

TEST_CASE("kernels/product: no token and no depth") {
  Operands none({1, 4, 3});
  none.product.depth = 0;
  few_row_product(none.product);
  CHECK(none.result() == std::vector<float>(4, 0.0F));
  none.product.tokens = 0;
  none.wide_y.assign(none.wide_y.size(), Operands::kUntouched);
  few_row_product(none.product);
  CHECK(none.wide_y == std::vector<float>(none.wide_y.size(), Operands::kUntouched));
}

}  // namespace tandem::exec::product_test
