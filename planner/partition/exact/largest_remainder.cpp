#include "planner/partition/exact/largest_remainder.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/base/error.hpp"

namespace tandem::planner {
namespace {

// A quota of 2.9999999999 that should be 3 is 3: rounding errors of proportions decide nothing.
double snapped(double quota) {
  const double nearest = std::round(quota);
  return std::abs(quota - nearest) <= 1e-9 * std::max(1.0, nearest) ? nearest : quota;
}

}  // namespace

std::vector<std::int64_t> largest_remainder(std::span<const double> quotas, std::int64_t total,
                                            std::span<const std::int64_t> caps) {
  require(caps.empty() || caps.size() == quotas.size(), "largest_remainder: one cap a quota");
  std::vector<std::int64_t> shares(quotas.size());
  std::vector<double> fractions(quotas.size());
  for (std::size_t i = 0; i < quotas.size(); ++i) {
    require(std::isfinite(quotas[i]) && quotas[i] >= 0.0, "largest_remainder: bad quota");
    const double quota = snapped(quotas[i]);
    shares[i] = static_cast<std::int64_t>(std::floor(quota));
    fractions[i] = quota - std::floor(quota);
  }
  std::int64_t missing = total - std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  require(missing >= 0, "largest_remainder: quotas exceed the total");

  std::vector<std::size_t> order(quotas.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return fractions[a] > fractions[b]; });
  for (bool gave = true; gave && missing > 0;) {
    gave = false;
    for (const std::size_t i : order) {
      if (missing == 0 || (!caps.empty() && shares[i] >= caps[i])) continue;
      ++shares[i];
      --missing;
      gave = true;
    }
  }
  return shares;
}

std::vector<std::int64_t> proportional_shares(std::span<const double> weights, std::int64_t total) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  require(std::isfinite(sum) && sum > 0.0, "proportional_shares: weights sum to nothing");
  std::vector<double> quotas;
  for (const double weight : weights) quotas.push_back(static_cast<double>(total) * (weight / sum));
  return largest_remainder(quotas, total);
}

std::vector<std::int64_t> proportional_shares(std::span<const double> weights, std::int64_t total,
                                              std::int64_t unit, std::int64_t least) {
  require(least >= 1 && unit % least == 0 && unit >= 1 && total % unit == 0,
          "proportional_shares: the total is in whole units");
  std::vector<std::int64_t> shares = proportional_shares(weights, total / unit);
  if (unit > least && std::ranges::find(shares, 0) != shares.end())
    return proportional_shares(weights, total, least, least);
  for (std::int64_t& share : shares) share *= unit;
  return shares;
}

}  // namespace tandem::planner
