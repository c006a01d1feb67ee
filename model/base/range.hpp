#pragma once

#include <algorithm>
#include <cstdint>

namespace tandem::model {

// Half-open [begin, end); empty when begin == end. Heads, FFN columns, layers, rows, positions.
struct Range {
  std::int32_t begin = 0;
  std::int32_t end = 0;

  [[nodiscard]] constexpr std::int32_t size() const { return end - begin; }
  [[nodiscard]] constexpr bool empty() const { return end == begin; }
  [[nodiscard]] constexpr bool contains(std::int32_t i) const { return begin <= i && i < end; }
  [[nodiscard]] constexpr bool contains(Range r) const { return begin <= r.begin && r.end <= end; }
  [[nodiscard]] constexpr Range intersect(Range r) const {
    const std::int32_t b = std::max(begin, r.begin);
    return {b, std::max(b, std::min(end, r.end))};
  }
  friend constexpr bool operator==(Range, Range) = default;
};

}  // namespace tandem::model
