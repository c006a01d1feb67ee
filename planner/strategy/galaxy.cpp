#include "planner/strategy/galaxy.hpp"

#include <algorithm>
#include <numeric>

#include "model/base/error.hpp"
#include "planner/strategy/common/block.hpp"
#include "planner/strategy/common/cover.hpp"
#include "planner/strategy/common/head.hpp"
#include "planner/strategy/common/rows.hpp"
#include "planner/strategy/row_group.hpp"
#include "planner/strategy/sparse/row_group_sparse.hpp"
#include "planner/strategy/sparse/sparse_plan.hpp"
#include "planner/strategy/tensor.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;

std::vector<DeviceIndex> everybody(const Plan& plan) {
  std::vector<DeviceIndex> devices(plan.devices.size());
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

std::vector<model::BufferDeclaration> buffers(const Plan& plan, DeviceIndex /*device*/,
                                              const model::Share& share, bool streams_head) {
  return row_group_buffers(plan, share, streams_head);
}

void declare(model::TaskGraph& graph, const Plan& plan) {
  for (const DeviceIndex device : everybody(plan)) {
    const model::Share& share = plan.devices[static_cast<std::size_t>(device)].share;
    declare_buffers(graph, plan, device,
                    buffers(plan, device, share, share.head && heads_at_once(plan)));
  }
}

model::TaskGraph lower(const Plan& plan, const model::Batch& batch) {
  if (plan.sparse) check_sparse_batch(plan, batch);
  if (!is_prompt(batch)) return tensor_strategy().tasks(plan, batch);
  model::TaskGraph graph(batch, plan.wire);
  WindowTasks window(graph, plan);
  DeviceTasks master(graph, plan.model, plan.master, &window);
  RowGroup group(graph, plan, window, everybody(plan),
                 wanted_rows(batch, plan.model.architecture().generates()));
  declare(graph, plan);
  group.scatter(master.embed());
  group.compute({0, static_cast<std::int32_t>(plan.model.layers)});
  finish_step(graph, plan, window, master, group.collect());
  window.finish();
  return graph;
}

void check(const Plan& plan) {
  check_master_ends(plan);
  check_cover(plan, everybody(plan));
  check_rows(plan, everybody(plan));
  if (!plan.sparse) return;
  check_sparse_plan(plan);
  check_sparse_heads(plan);
}

}  // namespace

Strategy galaxy_strategy() {
  return {.name = "galaxy",
          .summary =
              "as tensor, with a prompt's rows split between all-gathers and "
              "reduce-scatters, tile by tile (Galaxy)",
          .splits = true,
          .splits_head = true,
          .parts_rows = true,
          .tiles = true,
          .drops = true,
          .places_are_ranks = true,
          .allreduce = "ring,star",
          .tasks = lower,
          .check = check,
          .buffers = buffers,
          .serves_many = refuse_served_sparse};
}

}  // namespace tandem::planner
