#include "planner/search/outline.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "model/base/error.hpp"
#include "planner/search/request_checks.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/model_support.hpp"

namespace tandem::planner {
namespace {

model::Cluster limited(const model::Cluster& cluster, std::optional<model::Bytes> limit) {
  if (!limit) return cluster;
  std::vector<model::Device> devices = cluster.devices();
  for (model::Device& device : devices) device.memory = std::min(device.memory, *limit);
  return {cluster.name(), std::move(devices), cluster.routers(), cluster.links(), cluster.edges()};
}

}  // namespace

Plan outline_of(const Draft& draft) {
  const Request& request = draft.request;
  const Sums& sums = draft.sums;
  const Strategy& strategy = find_strategy(request.strategy);
  Plan plan{.strategy = request.strategy,
            .partition = strategy.sharding.has_partition() ? request.partition : "",
            .allreduce = sums.allreduce,
            .layout = sums.layout,
            .tiles = (strategy.sharding.exchanges_rows() && !request.sparse) ||
                             !request.group_strategy.empty()
                         ? request.tiles.value_or(1)
                         : 0,
            .decode_moves = request.decode_moves,
            .gather_weights = request.gather_weights,
            .group_strategy = request.group_strategy,
            .model = request.model,
            .cluster = limited(request.cluster, request.memory_limit),
            .master = master_of(request),
            .workload = request.workload,
            .capacity = request.capacity,
            .devices = {},
            .profiles = request.profiles,
            .release = request.release,
            .wire = request.wire};
  plan.model.validate();
  check_model_support(strategy, plan.model);
  if (request.sparse && plan.model.latent) {
    throw Error("sparse attention (--levels, --drop): model " + plan.model.name +
                " has latent attention, expected keys and values by heads; leave it out");
  }
  if (request.sparse) {
    plan.sparse = sparse_attention(*request.sparse, plan.cluster, plan.master, plan.model.layers);
    if (strategy.sharding.sparse_by_rank()) set_layout(plan, sums.layout);
  }
  check_window(request);
  plan.workload.validate(plan.model);
  if (plan.profiles.empty()) {
    plan.profiles.reserve(plan.cluster.devices().size());
    for (const model::Device& device : plan.cluster.devices()) {
      plan.profiles.push_back(model::nominal_profile(device));
    }
  }
  if (plan.profiles.size() != plan.cluster.devices().size()) {
    throw Error("profiles: " + std::to_string(plan.profiles.size()) +
                ": expected one for each of the " + std::to_string(plan.cluster.size()) +
                " devices of platform '" + plan.cluster.name() + "'");
  }
  for (model::DeviceProfile& profile : plan.profiles)
    profile = model::for_formats(std::move(profile), plan.model.formats, plan.model.cache);
  return plan;
}

}  // namespace tandem::planner
