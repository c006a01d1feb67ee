#include "planner/search/loss_budget.hpp"

#include <algorithm>

namespace tandem::planner {
namespace {

template <class Format>
std::optional<double> price_of(const std::vector<std::pair<Format, double>>& prices,
                               Format format) {
  if (format == Format::f32) return 0.0;
  const auto found = std::ranges::find(prices, format, &std::pair<Format, double>::first);
  if (found == prices.end()) return std::nullopt;
  return found->second;
}

}  // namespace

std::optional<double> FormatPrices::of(model::WireFormat format) const {
  return price_of(messages, format);
}

std::optional<double> FormatPrices::of(model::CacheFormat format) const {
  return price_of(cache, format);
}

}  // namespace tandem::planner
