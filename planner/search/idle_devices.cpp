#include "planner/search/idle_devices.hpp"

#include <algorithm>

#include "planner/strategy/common/positions.hpp"

namespace tandem::planner {

std::string idle_devices(const Plan& plan, const Strategy& strategy,
                         const std::vector<model::Share>& shares) {
  if (strategy.sharding.splits_positions() && !splits_prompt(plan))
    return {};  // only one device has a part
  const std::int64_t block = plan.model.column_block();
  const std::string columns =
      block == 1 ? "FFN column" : "block of " + std::to_string(block) + " FFN columns";
  const bool has_columns =
      !strategy.sharding.splits_layers() && !strategy.sharding.splits_positions();
  const std::string least = strategy.sharding.splits_layers()      ? "one layer"
                            : strategy.sharding.splits_positions() ? "one position"
                                                                   : "one head and one " + columns;
  std::string lines;
  for (std::size_t d = 0; d < shares.size(); ++d) {
    const model::Part& part = shares[d].part;
    const bool idle = strategy.sharding.splits_positions() ? part.positions.empty()
                      : plan.gather_weights ? shares[d].heads.empty() || shares[d].columns.empty()
                      : strategy.sharding.divides_work()
                          ? part.heads.empty() || part.columns.empty()
                          : shares[d].heads.empty() && shares[d].columns.empty();
    if (!idle) continue;
    lines += "device '" + plan.cluster.devices()[d].name + "': its share is less than " + least +
             " by partition '" + plan.partition + "'\n";
  }
  if (lines.empty()) return lines;
  // If blocks are long, no memory makes more of them, and a device without a block or a head gets
  // nothing by any partition.
  const std::int64_t blocks = (plan.model.intermediate + block - 1) / block;
  const std::int64_t devices = plan.cluster.size();
  const bool heads_do = !strategy.sharding.divides_work() && !plan.gather_weights;
  const bool long_blocks =
      has_columns && block > model::block_of(model::WeightFormat::q8_0).elements;
  if (long_blocks && blocks < devices && !(heads_do && plan.model.heads >= devices))
    return lines +
           "remedy: leave it out of the platform, or keep weights in a format of shorter "
           "blocks (--dtype q8_0), as the model has " +
           std::to_string(blocks) + (blocks == 1 ? " such block for " : " such blocks for ") +
           std::to_string(devices) + " devices";
  return lines + "remedy: leave it out of the platform, free memory on it, " +
         (long_blocks ? "keep weights in a format of shorter blocks (--dtype q8_0), " : "") +
         "or use --partition equal";
}

std::optional<Infeasible> too_many_devices(const Plan& plan, const Strategy& strategy,
                                           const Groups& groups) {
  // Devices beyond the heads get FFN columns alone.
  const std::int64_t parts = std::max(plan.model.heads, plan.model.intermediate);
  const std::string platform =
      "platform '" + plan.cluster.name() + "': " + std::to_string(plan.cluster.size()) + " devices";
  const std::string remedy = "\nremedy: fewer devices, or a larger model";
  if (strategy.sharding.splits_heads() && plan.cluster.size() > parts) {
    return Infeasible{platform + " but only " + std::to_string(plan.model.heads) +
                      " attention heads and " + std::to_string(plan.model.intermediate) +
                      " FFN columns in " + plan.model.name + remedy};
  }
  if (strategy.sharding.divides_work() &&
      plan.cluster.size() > std::min(plan.model.heads, plan.model.intermediate)) {
    return Infeasible{platform + " but only " + std::to_string(plan.model.heads) +
                      " attention heads in " + plan.model.name + ", of which each computes some" +
                      remedy};
  }
  const auto stages = groups.empty() ? static_cast<std::int64_t>(plan.cluster.size())
                                     : static_cast<std::int64_t>(groups.size());
  if (strategy.sharding.splits_layers() && stages > plan.model.layers) {
    return Infeasible{platform + " but only " + std::to_string(plan.model.layers) + " layers in " +
                      plan.model.name + remedy};
  }
  return std::nullopt;
}

}  // namespace tandem::planner
