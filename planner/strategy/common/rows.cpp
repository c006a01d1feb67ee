#include "planner/strategy/common/rows.hpp"

#include <algorithm>

#include "model/base/error.hpp"

namespace tandem::planner {

bool is_prompt(const model::Batch& batch) {
  return std::any_of(batch.segments.begin(), batch.segments.end(),
                     [](const model::Segment& segment) { return segment.rows > 1; });
}

std::vector<std::int32_t> equal_parts(std::int32_t total, std::int32_t parts) {
  require(total >= 0 && parts >= 1, "equal parts: at least one");
  std::vector<std::int32_t> sizes;
  sizes.reserve(static_cast<std::size_t>(parts));
  for (std::int32_t i = 0; i < parts; ++i)
    sizes.push_back(total / parts + (i < total % parts ? 1 : 0));
  return sizes;
}

std::vector<std::int32_t> parts_by_weight(std::int32_t total,
                                          const std::vector<std::int64_t>& weights) {
  std::int64_t sum = 0;
  for (const std::int64_t weight : weights) {
    require(weight >= 0, "parts by weight: none is negative");
    sum += weight;
  }
  require(total >= 0 && sum > 0, "parts by weight: some weight");
  // The method gives each at least its quota rounded down, so the loop may start there.
  std::vector<std::int32_t> sizes;
  std::int32_t left = total;
  for (const std::int64_t weight : weights) {
    sizes.push_back(static_cast<std::int32_t>(total * weight / sum));
    left -= sizes.back();
  }
  for (; left > 0; --left) {
    std::size_t next = 0;
    for (std::size_t i = 1; i < sizes.size(); ++i) {
      if (weights[i] * (sizes[next] + 1) > weights[next] * (sizes[i] + 1)) next = i;
    }
    ++sizes[next];
  }
  return sizes;
}

std::vector<bool> wanted_rows(const model::Batch& batch, bool generates) {
  std::vector<bool> wanted;
  for (const model::Segment& segment : batch.segments) {
    for (std::int32_t row = 0; row < segment.rows; ++row)
      wanted.push_back(!generates || row >= segment.rows - segment.sampled);
  }
  return wanted;
}

model::Range wanted_within(const std::vector<bool>& wanted, model::Range rows) {
  model::Range found{};
  for (std::int32_t row = rows.begin; row < rows.end; ++row) {
    if (!wanted[static_cast<std::size_t>(row)]) continue;
    found = {found.empty() ? row : found.begin, row + 1};
  }
  return found;
}

}  // namespace tandem::planner
