#include "model/base/statistics.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

namespace tandem::model::statistics_test {

TEST_CASE("model/statistics: quantiles interpolate between order statistics") {
  CHECK(quantile({3, 1, 2}, 0.5) == 2.0);
  CHECK(quantile({4, 1, 3, 2}, 0.5) == 2.5);
  CHECK(quantile({1, 2, 3, 4, 5}, 0.9) == doctest::Approx(4.6));
  CHECK(quantile({7}, 0.99) == 7.0);
  CHECK(quantile({1, 9}, 0.0) == 1.0);
  CHECK(quantile({1, 9}, 1.0) == 9.0);
  CHECK(std::isnan(quantile({}, 0.5)));
  CHECK(std::isnan(quantile({1, std::nan(""), 3}, 0.5)));
  CHECK_THROWS_AS((void)quantile({1}, 1.5), std::logic_error);
}

TEST_CASE("model/statistics: the mean of {1, 2, 6} is 3, that of nothing no number") {
  CHECK(mean(std::vector<double>{1, 2, 6}) == 3.0);
  CHECK(std::isnan(mean({})));
  CHECK(std::isnan(mean(std::vector<double>{1, std::nan("")})));
}

}  // namespace tandem::model::statistics_test
