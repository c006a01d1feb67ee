#include "model/predict/factor_draws.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::model::factor_draws_test {
namespace {

std::vector<double> of(const FactorDraws& draws, DeviceIndex device, TaskKind kind) {
  const auto factors = draws.of(device, kind);
  return {factors.begin(), factors.end()};
}

DeviceDeviation of_kinds(double deviation) {
  DeviceDeviation of;
  of.kind.fill(deviation);
  return of;
}

double standard_deviation(const std::vector<double>& factors) {
  double squares = 0.0;
  for (const double factor : factors) squares += std::pow(std::log(factor), 2);
  return std::sqrt(squares / static_cast<double>(factors.size() - 1));
}

}  // namespace

TEST_CASE("model/factor_draws: draw 0 is without errors, the others have the deviation") {
  const std::vector<std::string> names{"p"};
  for (const double deviation : {0.01, 0.1, 1.0}) {
    CAPTURE(deviation);
    for (const DeviceDeviation& of_device :
         {DeviceDeviation{.systematic = deviation}, DeviceDeviation{.drift = deviation},
          of_kinds(deviation)}) {
      const FactorDraws draws({&of_device, 1}, names, 7);
      const std::vector<double> factors = of(draws, 0, TaskKind::ffn_up);
      REQUIRE(factors.size() == FactorDraws::kCount);
      CHECK(factors.front() == 1.0);
      CHECK(standard_deviation(factors) == doctest::Approx(deviation).epsilon(0.03));
      // As many above as below, and as far.
      double sum = 0.0;
      for (const double factor : factors) sum += std::log(factor);
      CHECK(std::abs(sum) < 1e-12);
    }
  }
}

TEST_CASE("model/factor_draws: without deviation every factor is exactly 1") {
  const DeviceDeviation none;
  const std::vector<std::string> names{"p"};
  const FactorDraws draws({&none, 1}, names, 7);
  for (int k = 0; k < kTaskKinds; ++k)
    CHECK(std::ranges::count(of(draws, 0, static_cast<TaskKind>(k)), 1.0) == FactorDraws::kCount);
}

TEST_CASE("model/factor_draws: equal seeds draw the same, others do not") {
  const DeviceDeviation some = of_kinds(0.1);
  const std::vector<std::string> names{"p"};
  const auto draw = [&](std::uint64_t seed) {
    return of(FactorDraws({&some, 1}, names, seed), 0, TaskKind::attend);
  };
  CHECK(draw(1) == draw(1));
  CHECK(draw(1) != draw(2));
}

TEST_CASE("model/factor_draws: devices share the errors of their profile, not the drift") {
  const DeviceDeviation kinds = of_kinds(0.1);
  const std::vector<DeviceDeviation> all(3, kinds);
  const std::vector<std::string> names{"p", "q", "p"};
  const FactorDraws draws(all, names, 7);
  CHECK(of(draws, 0, TaskKind::ffn_up) == of(draws, 2, TaskKind::ffn_up));
  CHECK(of(draws, 0, TaskKind::ffn_up) != of(draws, 1, TaskKind::ffn_up));
  CHECK(of(draws, 0, TaskKind::ffn_up) != of(draws, 0, TaskKind::ffn_down));
  const std::vector<DeviceDeviation> drifting(3, DeviceDeviation{.drift = 0.1});
  const FactorDraws drifts(drifting, names, 7);
  CHECK(of(drifts, 0, TaskKind::ffn_up) == of(drifts, 0, TaskKind::ffn_down));
  CHECK(of(drifts, 0, TaskKind::ffn_up) != of(drifts, 2, TaskKind::ffn_up));
}

TEST_CASE("model/factor_draws: a device that is none is a caller's fault") {
  const DeviceDeviation none;
  const std::vector<std::string> names{"p"};
  const FactorDraws draws({&none, 1}, names, 7);
  CHECK_THROWS_AS((void)draws.of(1, TaskKind::add), std::logic_error);
  CHECK_THROWS_AS((void)draws.of(-1, TaskKind::add), std::logic_error);
}

}  // namespace tandem::model::factor_draws_test
