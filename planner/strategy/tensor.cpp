#include "planner/strategy/tensor.hpp"

#include "planner/strategy/common/cover.hpp"
#include "planner/strategy/common/group.hpp"
#include "planner/strategy/common/head.hpp"

namespace tandem::planner {
namespace {

// The master embeds and sends the residual stream to every worker; all of them are one group.
model::TaskGraph lower(const Plan& plan, const model::Batch& batch) {
  model::TaskGraph graph(batch, plan.wire);
  WindowTasks window(graph, plan);
  DeviceTasks master(graph, plan.model, plan.master, &window);
  DeviceGroup group(graph, plan, window, plan.master, all_devices(plan));
  group.receive(master.embed());
  const model::TaskIndex last = group.compute({0, static_cast<std::int32_t>(plan.model.layers)},
                                              splits_head(plan) && samples_all(batch));
  finish_step(graph, plan, window, master, {&last, 1}, group.replicas());
  window.finish();
  return graph;
}

void check(const Plan& plan) {
  check_master_ends(plan);
  check_cover(plan, all_devices(plan));
}

}  // namespace

Strategy tensor_strategy() {
  return {.name = "tensor",
          .summary = "heads and FFN columns",
          .namesakes = {{.name = "tpi-llm"},
                        {.name = "megatron"},
                        {.name = "megatron-lm"},
                        {.name = "distributed-llama", .flags = "--wire-type q8_0"},
                        {.name = "vllm"}},
          .sharding = {.weights = Weights::heads_and_columns,
                       .prefill = PrefillRows::whole,
                       .cache = KvCache::by_heads,
                       .decode = Decode::tensor},
          .allreduce = "star",
          .tasks = lower,
          .check = check};
}

}  // namespace tandem::planner
