#include "planner/strategy/rows.hpp"

#include <algorithm>

#include "model/error.hpp"

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
