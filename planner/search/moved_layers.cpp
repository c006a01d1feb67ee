#include "planner/search/moved_layers.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/memory/plan_storage.hpp"
#include "planner/strategy/common/stages.hpp"

namespace tandem::planner {

std::optional<Plan> with_layer_moved(const Plan& plan, std::size_t from, std::size_t to) {
  const std::vector<Stage> all = stages(plan);
  if (all[from].layers.size() < 2) return std::nullopt;
  Plan moved = plan;
  std::int32_t begin = 0;
  for (std::size_t s = 0; s < all.size(); ++s) {
    const std::int32_t change = s == from ? -1 : s == to ? 1 : 0;
    const std::int32_t end = begin + static_cast<std::int32_t>(all[s].layers.size()) + change;
    for (const model::DeviceIndex d : all[s].devices)
      moved.devices[static_cast<std::size_t>(d)].share.layers = model::Range{begin, end};
    begin = end;
  }
  moved = with_predicted_memory(std::move(moved));
  if (!fits(moved)) return std::nullopt;
  return moved;
}

}  // namespace tandem::planner
