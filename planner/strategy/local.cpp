#include "planner/strategy/local.hpp"

#include "planner/strategy/common/block.hpp"
#include "planner/strategy/common/cover.hpp"

namespace tandem::planner {
namespace {

model::TaskGraph lower(const Plan& plan, const model::Batch& batch) {
  model::TaskGraph graph(batch, plan.wire);
  WindowTasks window(graph, plan);
  DeviceTasks master(graph, plan.model, plan.master, &window);
  const model::Share& share = plan.devices[static_cast<std::size_t>(plan.master)].share;
  model::TaskIndex last = master.embed();
  for (const std::int32_t layer : share.layers) {
    last = master.add_partial(model::WeightBlock::attention, layer,
                              master.attention(layer, share.heads, last));
    last =
        master.add_partial(model::WeightBlock::ffn, layer, master.ffn(layer, share.columns, last));
  }
  master.finish(last);
  window.finish();
  return graph;
}

void check(const Plan& plan) {
  check_master_ends(plan);
  check_cover(plan, {plan.master});
}

}  // namespace

Strategy local_strategy() {
  return {.name = "local",
          .summary = "the master alone",
          .namesakes = {{.name = "ollama"}},
          .tasks = lower,
          .check = check};
}

}  // namespace tandem::planner
