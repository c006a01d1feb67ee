// Products and kernels of a row: the reference against the tuned ones, with each instruction set.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "exec/weights/formats/block_codec.hpp"
#include "tests/exec/kernels/reference_test_support.hpp"

namespace tandem::test::eigen_kernels_test {
namespace {

using exec::eigen_kernels;
using exec::Kernels;
using exec::tuned_kernels;
using model::WeightFormat;
using testing::check_equal;
using testing::compare;
using testing::kEpsilon;
using testing::kSeeds;
using testing::kSizes;
using testing::part;
using testing::random_floats;
using testing::scaled;
using testing::tolerance;

static_assert(sizeof(Kernels) == 17 * sizeof(void*), "a kernel was added: compare it, too");

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

TEST_CASE("kernels/reference: a product of a token is the same bits beside any others") {
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

TEST_CASE("kernels/reference: a NaN does not become a number") {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr std::int64_t kSize = 7;  // a vector and a rest
  const std::vector<float> ones(kSize, 1.0F);
  for (std::int64_t at = 0; at < kSize; ++at) {
    CAPTURE(at);
    std::vector<float> x = ones;
    x[static_cast<std::size_t>(at)] = kNaN;
    const auto check = [&](const auto& apply) {
      const auto check_set = [&](const Kernels& kernels) {
        std::vector<float> y = x;
        apply(kernels, y.data());
        CHECK(std::isnan(y[static_cast<std::size_t>(at)]));
      };
      check_set(eigen_kernels());
      testing::for_every_target([&] { check_set(tuned_kernels()); });
    };
    using model::Activation;
    for (const Activation f :
         {Activation::relu, Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
      CAPTURE(static_cast<int>(f));
      check([&](const Kernels& k, float* y) { k.activate(f, nullptr, kSize, y); });
    }
    check([&](const Kernels& k, float* y) { k.gate_with(ones.data(), kSize, y); });
    check([&](const Kernels& k, float* y) { k.soft_cap(15.0F, kSize, y); });
    check([&](const Kernels& k, float* y) { k.rms_norm(y, ones.data(), kSize, 1e-5F, y); });
    check([&](const Kernels& k, float* y) {
      k.layer_norm(y, ones.data(), ones.data(), kSize, 1e-5F, y);
    });
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
