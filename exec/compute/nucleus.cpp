#include "exec/compute/nucleus.hpp"

#include <algorithm>

namespace tandem::exec {
namespace {

// Likeliest first, the smaller id among equals.
bool before(const WeightedToken& a, const WeightedToken& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

}  // namespace

std::pair<std::size_t, double> select_nucleus(std::span<WeightedToken> candidates, double enough,
                                              double total) {
  constexpr std::size_t kFirst = 128;  // candidates; then four times as many, and so on
  // All candidates lighter than this together weigh less than what may be left out, so the nucleus
  // ends before them, except for rounding.
  const double light = (total - enough) / static_cast<double>(candidates.size());
  const auto rest = std::partition(candidates.begin(), candidates.end(),
                                   [light](const WeightedToken& c) { return c.weight >= light; });
  double kept = 0.0;
  std::size_t size = 0;
  std::size_t chunk = kFirst;
  for (auto end = static_cast<std::size_t>(rest - candidates.begin());; end = candidates.size()) {
    while (size < end) {
      const std::size_t next = std::min(end, size + chunk);
      chunk *= 4;
      const auto part = candidates.subspan(size, end - size);
      const auto middle = part.begin() + static_cast<std::ptrdiff_t>(next - size);
      if (middle != part.end()) std::nth_element(part.begin(), middle, part.end(), before);
      std::sort(part.begin(), middle, before);
      for (; size < next; ++size) {
        if (size > 0 && kept >= enough) return {size, kept};
        kept += candidates[size].weight;
      }
    }
    if (end == candidates.size() || (size > 0 && kept >= enough)) return {size, kept};
  }
}

}  // namespace tandem::exec
