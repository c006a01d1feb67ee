#include "planner/plan/capacity.hpp"

#include <algorithm>

#include "model/graph/storage.hpp"

namespace tandem::planner {

std::int64_t reserved_positions(std::int64_t positions) {
  return model::cache_blocks(positions) * model::kCacheBlock;
}

std::string to_text(const Capacity& capacity) {
  return "steps of " + std::to_string(capacity.rows) + " rows, of " +
         std::to_string(capacity.sequences) + " sequences with " +
         std::to_string(capacity.positions) + " positions";
}

Capacity larger(const Capacity& a, const Capacity& b) {
  return {.rows = std::max(a.rows, b.rows),
          .positions = std::max(a.positions, b.positions),
          .sequences = std::max(a.sequences, b.sequences),
          .steps = std::max(a.steps, b.steps)};
}

std::int64_t in_a_step(const Capacity& capacity) {
  const std::int64_t steps = std::max<std::int64_t>(1, capacity.steps);
  return (capacity.sequences + steps - 1) / steps;
}

}  // namespace tandem::planner
