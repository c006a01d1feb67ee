#include "advice/lack.hpp"

#include <cstddef>
#include <vector>

#include "model/base/quantity_text.hpp"
#include "model/graph/memory.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {

using model::Bytes;

std::string lack_of(planner::Plan plan, const planner::Workload& workload) {
  if (planner::find_strategy(plan.strategy).sharding.splits_positions()) return "";
  plan.workload = workload;
  const std::vector<model::MemoryUse> memory = planner::predicted_memory(plan);
  std::string text;
  double most = 0.0;
  for (std::size_t d = 0; d < memory.size(); ++d) {
    const model::Device& device = plan.cluster.devices()[d];
    const double lack = memory[d].total() - device.memory.value();
    if (lack <= most) continue;
    most = lack;
    text = "with the same shares, device '" + device.name + "' would lack " + to_text(Bytes{lack}) +
           " (weights " + to_text(Bytes{memory[d].weights}) + ", KV cache " +
           to_text(Bytes{memory[d].kv_cache}) + ", activations " +
           to_text(Bytes{memory[d].activations}) + ", buffers " +
           to_text(Bytes{memory[d].buffers}) + ", program " + to_text(Bytes{memory[d].program}) +
           ", of " + to_text(device.memory) + ")";
  }
  return text;
}

}  // namespace tandem::study
