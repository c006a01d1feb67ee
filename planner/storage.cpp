#include "planner/storage.hpp"

#include <algorithm>

#include "planner/lowering.hpp"

namespace tandem::planner {
namespace {

std::vector<model::Batch> largest_batches(const Plan& plan, const model::Extents& extents) {
  const bool generates = plan.model.architecture().generates();
  std::vector<model::Batch> batches;
  // Of every sequence one that ended may be freed, and itself begun; announcements say so.
  const std::vector<model::CacheOp> ops(static_cast<std::size_t>(2 * extents.sequences));
  batches.push_back(
      {{{.rows = static_cast<std::int32_t>(extents.rows), .sampled = generates ? 1 : 0}}, ops});
  if (!generates) return batches;
  model::Batch tokens{.segments = {}, .cache = ops};
  const std::int64_t sequences = std::min(extents.sequences, extents.rows);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(sequences); ++i)
    tokens.segments.push_back({.sequence = i, .rows = 1});
  batches.push_back(std::move(tokens));
  return batches;
}

}  // namespace

model::Extents extents_of(const Capacity& capacity, std::int64_t scored_rows) {
  return {.rows = capacity.rows,
          .positions = capacity.positions,
          .sequences = capacity.sequences,
          .sampled = capacity.sequences + std::max<std::int64_t>(0, scored_rows - 1),
          .steps = std::max<std::int64_t>(1, capacity.steps)};
}

std::vector<model::DeviceStorage> storage_of(const Plan& plan, const model::Extents& extents) {
  const Strategy& strategy = find_strategy(plan.strategy);
  std::vector<model::DeviceStorage> storage(plan.devices.size());
  for (const model::Batch& batch : largest_batches(plan, extents)) {
    const std::vector<model::DeviceStorage> more =
        model::storage_of(strategy.lower(plan, batch), storage.size());
    for (std::size_t d = 0; d < storage.size(); ++d) model::widen(storage[d], more[d]);
  }
  return storage;
}

std::vector<model::MemoryUse> predicted_memory(const Plan& plan, const model::Extents& extents) {
  const std::vector<model::DeviceStorage> storage = storage_of(plan, extents);
  std::vector<model::MemoryUse> memory;
  memory.reserve(storage.size());
  for (std::size_t d = 0; d < storage.size(); ++d) {
    const DevicePlan& device = plan.devices[d];
    model::MemoryUse& use = memory.emplace_back(model::memory_use(storage[d], extents));
    use.weights = weight_bytes(plan.model, device.share, device.window);
    use.program = plan.profiles[d].program_bytes;
  }
  return memory;
}

std::vector<model::MemoryUse> predicted_memory(const Plan& plan) {
  return predicted_memory(plan, extents_of(plan.reserved()));
}

}  // namespace tandem::planner
