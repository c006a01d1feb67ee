#include "model/transformer/experts.hpp"

#include <algorithm>
#include <cmath>

namespace tandem::model {

std::int64_t Experts::router_parameters(std::int64_t hidden) const {
  const std::int64_t router = count > 1 ? count * hidden + (router_bias ? count : 0) : 0;
  return router + (shared > 0 && shared_gate ? hidden : 0);
}

double Experts::expected_distinct(double rows) const {
  if (rows <= 0.0) return 0.0;
  const auto all = static_cast<double>(count);
  const auto each = static_cast<double>(chosen);
  const double expected = all * (1.0 - std::pow(1.0 - each / all, rows));
  return std::clamp(expected, each, std::min(all, rows * each));
}

double Experts::distinct_deviation(double rows) const {
  if (rows <= 0.0 || count < 2) return 0.0;
  const auto all = static_cast<double>(count);
  const auto each = static_cast<double>(chosen);
  const double one = all * std::pow(1.0 - each / all, rows);
  const double two =
      all * (all - 1.0) * std::pow((all - each) * (all - each - 1.0) / (all * (all - 1.0)), rows);
  return std::sqrt(std::max(0.0, one + two - one * one));
}

}  // namespace tandem::model
