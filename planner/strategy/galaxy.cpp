// Hybrid model parallelism of Galaxy (Ye et al., INFOCOM 2024, section III-B). Device d holds the
// query heads H_d and the FFN columns C_d of every layer, as with `tensor`; of a prompt's R rows it
// also has S_d. One step of a prompt:
//   master: embed; send rows S_d of hidden to device d
//   each half of a layer (attention, FFN):
//     norm of S_d                                   all-gather of the normed rows
//     first product of H_d (C_d), attention         reduce-scatter of the second product's rows
//     hidden += sum, of S_d
//   rows that the result needs: to the master, which goes on as with `tensor`
// Rows are equal (III-C2) over the devices that hold heads and columns: only those have the norms
// of both halves. The others compute on all rows without having any. All-gather and reduce-scatter
// are those of the collective that the plan names for prompts; the ring is the paper's.
//
// Tiles (III-D): each device's rows are cut into `Plan::tiles` tiles. The first product runs tile
// by tile as they arrive, each passed on by the ring on arrival; the second tile by tile in the
// order in which their sums leave. With 0, products are of all rows, after the gather and before
// the scatter: nothing overlaps. A tile streams the product's weights anew.
//
// With sparse attention (Plan::sparse) a rank's rows are a place: dropping saves computing, and
// messages are the same (strategy/sparse/row_group_sparse.hpp). New tokens attend to everything.
//
// Of the last sum only rows that the result needs are made: all of an encoder's pass.
// A step in which each sequence has one new row has nothing to part: it is that of `tensor`.
//   bytes of a prompt's step, e an element, N devices, M the master:
//     e h (R - S_M + (4 L - 1) (N - 1) R + (N - 1) W + W - W_M)
//   with W rows of the result, W_M of them the master's, all devices in both halves

#include <algorithm>

#include "model/base/error.hpp"
#include "planner/strategy/common/block.hpp"
#include "planner/strategy/common/cover.hpp"
#include "planner/strategy/common/head.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/rows.hpp"
#include "planner/strategy/row_group.hpp"
#include "planner/strategy/sparse/row_group_sparse.hpp"
#include "planner/strategy/sparse/sparse_plan.hpp"
#include "planner/strategy/tensor.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;

std::vector<model::BufferDeclaration> buffers(const Plan& plan, DeviceIndex /*device*/,
                                              const model::Share& share, bool streams_head) {
  return row_group_buffers(plan, share, streams_head);
}

model::TaskGraph lower(const Plan& plan, const model::Batch& batch) {
  if (plan.sparse) check_sparse_batch(plan, batch);
  if (!is_prompt(batch)) return tensor_strategy().tasks(plan, batch);
  model::TaskGraph graph(batch, plan.wire);
  WindowTasks window(graph, plan);
  DeviceTasks master(graph, plan.model, plan.master, &window);
  RowGroup group(graph, plan, window, all_devices(plan),
                 wanted_rows(batch, plan.model.architecture().generates()));
  group.scatter(master.embed());
  group.compute({0, static_cast<std::int32_t>(plan.model.layers)});
  finish_step(graph, plan, window, master, group.collect());
  window.finish();
  return graph;
}

void check(const Plan& plan) {
  check_master_ends(plan);
  check_cover(plan, all_devices(plan));
  check_rows(plan, all_devices(plan));
  if (!plan.sparse) return;
  check_sparse_plan(plan);
  check_sparse_heads(plan);
}

}  // namespace

Strategy galaxy_strategy() {
  return {.name = "galaxy",
          .summary = "heads, columns and a prompt's rows",
          .namesakes = {{.name = "megatron-sp"}},
          .sharding = {.weights = Weights::heads_and_columns,
                       .prefill = PrefillRows::split_between_halves,
                       .cache = KvCache::by_heads,
                       .decode = Decode::tensor},
          .allreduce = "ring,star",
          .tasks = lower,
          .check = check,
          .buffers = buffers,
          .serves_many = refuse_served_sparse};
}

}  // namespace tandem::planner
