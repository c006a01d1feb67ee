#include "exec/kernels/rowwise.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "exec/kernels/rope.hpp"
#include "tests/exec/kernels/kernel_test_support.hpp"

namespace tandem::exec::rowwise_test {
namespace {

using testing::as_matrix;
using testing::check_close;
using testing::Matrix;
using testing::random_floats;
using testing::tolerance;

constexpr std::int64_t kSizes[] = {1, 2, 3, 7, 8, 16, 17, 31, 64, 127, 768, 1009};

}  // namespace

TEST_CASE("kernels/rowwise: rms_norm is x / sqrt(mean x^2 + epsilon) weight") {
  for (const std::int64_t n : kSizes) {
    CAPTURE(n);
    const auto x = random_floats(n, 1);
    const auto weight = random_floats(n, 2);
    testing::for_every_target([&] {
      std::vector<float> y(x.size() + 1, 9.0F);
      rms_norm(x.data(), weight.data(), n, 1e-5F, y.data());
      CHECK(y.back() == 9.0F);
      y.pop_back();
      check_close(y, testing::rms_norm(as_matrix(x, 1, n), as_matrix(weight, n, 1), 1e-5),
                  4.0 * tolerance(n));
    });
  }
  SUBCASE("a row of zeros stays zero, thanks to epsilon") {
    const std::vector<float> zeros(5, 0.0F);
    std::vector<float> y(5, 1.0F);
    rms_norm(zeros.data(), zeros.data(), 5, 1e-5F, y.data());
    CHECK(y == zeros);
  }
}

TEST_CASE("kernels/rowwise: layer_norm is (x - mean) / sqrt(variance + epsilon) weight + bias") {
  for (const std::int64_t n : kSizes) {
    for (const double offset : {0.0, 3.0}) {
      CAPTURE(n);
      CAPTURE(offset);
      auto x = random_floats(n, 1);
      for (float& v : x) v += static_cast<float>(offset);
      const auto weight = random_floats(n, 2);
      const auto bias = random_floats(n, 3);
      const double epsilon = 1e-3;
      Matrix wanted(1, n);
      double mean = 0.0;
      for (const float v : x) mean += static_cast<double>(v) / static_cast<double>(n);
      double variance = 0.0;
      for (const float v : x) {
        const double left = static_cast<double>(v) - mean;
        variance += left * left / static_cast<double>(n);
      }
      for (std::size_t i = 0; i < x.size(); ++i) {
        wanted.values[i] = (static_cast<double>(x[i]) - mean) / std::sqrt(variance + epsilon) *
                               static_cast<double>(weight[i]) +
                           static_cast<double>(bias[i]);
      }
      testing::for_every_target([&] {
        std::vector<float> y(x.size() + 1, 9.0F);
        layer_norm(x.data(), weight.data(), bias.data(), n, static_cast<float>(epsilon), y.data());
        CHECK(y.back() == 9.0F);
        y.pop_back();
        check_close(y, wanted, 40.0 * tolerance(8));
        auto in_place = x;
        layer_norm(in_place.data(), weight.data(), bias.data(), n, static_cast<float>(epsilon),
                   in_place.data());
        CHECK(in_place == y);
      });
    }
  }
}

TEST_CASE("kernels/rowwise: every activation of y + bias, also far from zero") {
  using model::Activation;
  const auto exact = [](Activation activation, double x) {
    switch (activation) {
      case Activation::relu:
        return std::max(x, 0.0);
      case Activation::silu:
        return x / (1.0 + std::exp(-x));
      case Activation::gelu:
        return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
      case Activation::gelu_tanh:
        return 0.5 * x *
               (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    }
    return 0.0;
  };
  for (const Activation activation :
       {Activation::relu, Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
    for (const std::int64_t n : kSizes) {
      for (const float scale : {1.0F, 6.0F, 60.0F}) {
        CAPTURE(static_cast<int>(activation));
        CAPTURE(n);
        CAPTURE(scale);
        auto x = random_floats(n, 1);
        for (float& v : x) v *= scale;
        const auto bias = random_floats(n, 2);
        for (const bool biased : {false, true}) {
          Matrix wanted(1, n);
          for (std::size_t i = 0; i < x.size(); ++i) {
            wanted.values[i] =
                exact(activation, static_cast<double>(biased ? x[i] + bias[i] : x[i]));
          }
          testing::for_every_target([&] {
            auto y = x;
            y.push_back(9.0F);
            activate(activation, biased ? bias.data() : nullptr, n, y.data());
            CHECK(y.back() == 9.0F);
            y.pop_back();
            check_close(y, wanted, static_cast<double>(scale) * 1e-6);
          });
        }
      }
    }
  }
}

TEST_CASE("kernels/rowwise: add adds n values and no more") {
  for (const std::int64_t n : kSizes) {
    CAPTURE(n);
    const auto x = random_floats(n + 1, 1);
    const auto before = random_floats(n + 1, 2);
    testing::for_every_target([&] {
      auto y = before;
      add(x.data(), n, y.data());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
        if (y[i] != before[i] + x[i]) ++wrong;
      }
      CHECK(wrong == 0);
      CHECK(y.back() == before.back());
    });
  }
}

TEST_CASE("kernels/rowwise: gate_with is silu(gate) up, also far from zero") {
  for (const std::int64_t n : kSizes) {
    CAPTURE(n);
    const auto gate = random_floats(n, 1);
    const auto up = random_floats(n, 2);
    testing::for_every_target([&] {
      auto y = gate;
      gate_with(up.data(), n, y.data());
      check_close(y, testing::swiglu(as_matrix(gate, 1, n), as_matrix(up, 1, n)), tolerance(8));
    });
  }
  SUBCASE("silu(1000) = 1000, silu(-1000) = 0, silu(0) = 0") {
    std::vector<float> y{1000.0F, -1000.0F, 0.0F};
    const std::vector<float> ones(3, 1.0F);
    const auto gate = y;
    testing::for_every_target([&] {
      y = gate;
      gate_with(ones.data(), 3, y.data());
      CHECK(y[0] == 1000.0F);
      CHECK(std::abs(y[1]) < 1e-30F);
      CHECK(y[2] == 0.0F);
    });
  }
}

TEST_CASE("kernels/rope: angles are position times frequency, with every scaling") {
  model::Transformer t;
  t.rope_theta = 10000.0;
  model::RopeScaling linear;
  linear.factor = 4.0;
  model::RopeScaling llama3;
  llama3.kind = model::RopeScaling::Kind::llama3;
  llama3.factor = 8.0;
  const std::optional<model::RopeScaling> scalings[] = {std::nullopt, linear, llama3};
  for (const std::int64_t head_dim : {2, 6, 64, 128}) {
    for (const auto& scaling : scalings) {
      t.head_dim = head_dim;
      t.rope_scaling = scaling;
      CAPTURE(head_dim);
      std::vector<float> table(static_cast<std::size_t>(3 * head_dim));
      RopeTable rope(t, RopeLayers::all, 3, table.data());
      const std::int32_t positions[] = {0, 1, 4095};
      for (std::int32_t row = 0; row < 3; ++row) rope.set(row, positions[row]);
      for (std::int32_t row = 0; row < 3; ++row) {
        const auto before = random_floats(head_dim, 7);
        Matrix wanted = as_matrix(before, 1, head_dim);
        testing::apply_rope(wanted, t, positions[row]);
        testing::for_every_target([&] {
          auto x = before;
          rotate(rope.cosine(row), rope.sine(row), rope.half(), x.data());
          check_close(x, wanted, tolerance(2));
        });
      }
    }
  }
}

TEST_CASE("kernels/rope: longrope turns short texts by one list of factors, long ones by another") {
  model::Transformer t;
  t.head_dim = 4;
  t.rope_theta = 100.0;
  t.rope_scaling = model::RopeScaling{.kind = model::RopeScaling::Kind::longrope,
                                      .original_context = 8,
                                      .short_factors = {1.0F, 2.0F},
                                      .long_factors = {4.0F, 8.0F}};
  std::vector<float> table(4);
  RopeTable rope(t, RopeLayers::all, 1, table.data());
  const auto turned = [&](double first, double second) {
    CHECK(rope.sine(0)[0] == doctest::Approx(std::sin(3.0 * first)));
    CHECK(rope.sine(0)[1] == doctest::Approx(std::sin(3.0 * second)));
  };
  rope.set(0, 3);
  turned(1.0, 0.1 / 2.0);
  rope.set(0, 3, true);  // of the same position, but of another text
  turned(1.0 / 4.0, 0.1 / 8.0);
  rope.set(0, 3);
  turned(1.0, 0.1 / 2.0);
}

TEST_CASE("kernels/rope: llama3 keeps high frequencies and divides low ones by 8") {
  model::Transformer t;
  t.head_dim = 128;
  t.rope_theta = 500000.0;
  t.rope_scaling.emplace();
  t.rope_scaling->kind = model::RopeScaling::Kind::llama3;
  t.rope_scaling->factor = 8.0;
  std::vector<float> table(128);
  const RopeTable rope(t, RopeLayers::all, 1, table.data());
  CHECK(rope.frequencies().front() == doctest::Approx(1.0));
  CHECK(rope.frequencies().back() == doctest::Approx(std::pow(500000.0, -126.0 / 128.0) / 8.0));
}

}  // namespace tandem::exec::rowwise_test
