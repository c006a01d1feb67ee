#include "planner/strategy/sparse/row_group_sparse.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "planner/strategy/sparse/sparse_plan.hpp"

namespace tandem::planner {
namespace {

using model::BufferKind;
using model::BufferRef;
using model::DeviceIndex;
using model::Range;

// Results that are merged or added at once need no slot of their own.
constexpr std::int16_t kAtOnce = 1;

bool drops_at(const Plan& plan, std::int32_t level) {
  return std::ranges::any_of(plan.sparse->drop, [&](const std::vector<DropRatio>& by_level) {
    return by_level[static_cast<std::size_t>(level - 2)].drops();
  });
}

}  // namespace

RowGroupAttention::RowGroupAttention(model::TaskGraph& graph, const Plan& plan,
                                     std::vector<Range> rows)
    : graph_(&graph), plan_(&plan), rows_(std::move(rows)) {
  for (std::int32_t number = 2; number <= plan.sparse->levels(); ++number) {
    SparseLevel level(plan, number, rows_);
    if (level.attends()) levels_.push_back(std::move(level));
  }
}

void RowGroupAttention::choose(std::int32_t layer) {
  layer_ = layer;
  const SparseAttention& sparse = *plan_->sparse;
  const bool several = !levels_.empty();
  dense_ = !several || (!sparse.overlap && !sparse.drops(layer));
  scored_ = several && layer + 1 < plan_->model.layers && sparse.drops(layer + 1);
  for (SparseLevel& level : levels_) level.choose(layer, rows_);
}

// All tasks are in the order of the device's lane.
void RowGroupAttention::add(const model::Task& task) { graph_->add(task, {}); }

model::TaskExtent RowGroupAttention::extent(DeviceIndex device, Range rows, Range columns) const {
  return {.device = device, .layer = layer_, .rows = rows, .columns = columns};
}

void RowGroupAttention::attend(DeviceIndex device, Range heads) {
  if (dense_) {
    return add(model::attend_task(extent(device, {0, graph_->batch().rows()}, heads),
                                  {.statistics = scored_}));
  }
  for (const Range rows : rows_) {
    if (!rows.empty())
      add(model::attend_task(extent(device, rows, heads), {.keys = rows, .statistics = true}));
  }
  for (const SparseLevel& level : levels_) {
    for (const KeptPart& part : level.parts()) {
      const Range own = part.heads.intersect(heads);
      if (!own.empty()) attend(device, level, part, own);
    }
  }
}

// Of one level, heads with equal ratios.
void RowGroupAttention::attend(DeviceIndex device, const SparseLevel& level, const KeptPart& part,
                               Range heads) {
  const std::int8_t list = level.list(part);
  for (std::size_t i = 0; part.lists && i < rows_.size(); ++i) {
    if (!level.takes_part(i)) continue;
    add(model::select_task(extent(device, rows_[i], heads), part.kept[i],
                           {BufferKind::selection, level.slot()}));
    const Range queries = level.queries(part, i);
    const Range keys = level.keys(part, i);
    if (!queries.empty())
      add(model::gather_task(extent(device, queries, heads), {BufferKind::query},
                             {BufferKind::query, level.slot()}, list));
    if (!keys.empty())
      add(model::gather_task(extent(device, keys, heads), {BufferKind::key_value},
                             {BufferKind::gathered, level.slot()}, list));
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Range queries = level.queries(part, i);
    const Range keys = level.asked(part, i);
    if (queries.empty() || keys.empty()) continue;
    const model::TaskExtent asked = extent(device, queries, heads);
    const BufferRef result{BufferKind::attention, kAtOnce};
    add(model::attend_task(asked, {.keys = keys,
                                   .statistics = true,
                                   .selection = list,
                                   .query = {BufferKind::query, list},
                                   .output = result}));
    add(model::merge_task(asked, result, list));
  }
}

void RowGroupAttention::weigh(DeviceIndex device, Range heads) {
  if (!scored_) return;
  if (dense_) {
    const Range all{0, graph_->batch().rows()};
    return add(model::score_task(extent(device, all, heads), all, {BufferKind::query},
                                 {BufferKind::scores}));
  }
  for (const Range rows : rows_) {
    if (!rows.empty())
      add(model::score_task(extent(device, rows, heads), rows, {BufferKind::query},
                            {BufferKind::scores}));
  }
  for (const SparseLevel& level : levels_) {
    for (const KeptPart& part : level.parts()) {
      const Range own = part.heads.intersect(heads);
      if (!own.empty()) weigh(device, level, part, own, plan_->model.kv_heads_for(heads).begin);
    }
  }
}

// `first_kv`: the first key/value head of the device.
void RowGroupAttention::weigh(DeviceIndex device, const SparseLevel& level, const KeptPart& part,
                              Range heads, std::int32_t first_kv) {
  const std::int8_t list = level.list(part);
  const Range kv = plan_->model.kv_heads_for(heads);
  for (std::size_t i = 0; part.lists && i < rows_.size(); ++i) {
    // The softmax over all levels.
    if (const Range queries = level.queries(part, i); !queries.empty())
      add(model::gather_task(extent(device, queries, heads), {BufferKind::softmax},
                             {BufferKind::softmax, list}, list));
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Range keys = level.keys(part, i);
    if (keys.empty()) continue;
    const BufferRef weights{BufferKind::scores, kAtOnce};
    add(model::score_task(extent(device, level.askers(part, i), heads), keys,
                          {BufferKind::query, list}, weights, list));
    add(model::add_task(extent(device, keys, {kv.begin - first_kv, kv.end - first_kv}), weights,
                        {BufferKind::scores}, list));
  }
}

std::vector<model::BufferDeclaration> row_group_buffers(const Plan& plan, const model::Share& share,
                                                        bool streams_head) {
  std::vector<model::BufferDeclaration> buffers =
      model::share_buffers(plan.model, share, streams_head);
  if (!plan.sparse || share.layers.empty() || share.heads.empty()) return buffers;
  const bool drops = plan.sparse->drops();
  if (!drops && !plan.sparse->overlap) return buffers;
  const std::int64_t heads = share.heads.size();
  const std::int64_t kv = plan.model.kv_heads_for(share.heads).size();
  const std::int64_t d = plan.model.head_dim;
  const auto add = [&](BufferKind kind, std::int16_t slot, std::int64_t columns) {
    buffers.push_back({.name = {kind, slot}, .columns = columns});
  };
  add(BufferKind::softmax, 0, 2 * heads);
  add(BufferKind::softmax, kAtOnce, 2 * heads);
  add(BufferKind::attention, kAtOnce, heads * d);
  if (!drops) return buffers;
  add(BufferKind::scores, 0, kv);
  add(BufferKind::scores, kAtOnce, kv);
  for (std::int32_t level = 2; level <= plan.sparse->levels(); ++level) {
    if (!drops_at(plan, level)) continue;
    const auto slot = static_cast<std::int16_t>(level - 1);
    if (slot != kAtOnce) add(BufferKind::softmax, slot, 2 * heads);
    add(BufferKind::query, slot, heads * d);
    add(BufferKind::gathered, slot, 2 * kv * d);
    buffers.push_back({.name = {BufferKind::selection, slot},
                       .columns = kv,
                       .format = model::ElementFormat::i32});
  }
  buffers.push_back(
      {.name = {BufferKind::packed_kv}, .rows = model::RowCount::positions, .columns = 2 * d});
  return buffers;
}

void check_sparse_heads(const Plan& plan) {
  if (!plan.sparse->drops()) return;
  const auto group = static_cast<std::int32_t>(plan.model.group());
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const Range heads = plan.devices[d].share.heads;
    if (heads.empty() || (heads.begin % group == 0 && heads.end % group == 0)) continue;
    refuse_sparse("device '" + plan.cluster.devices()[d].name + "' computes heads [" +
                  std::to_string(heads.begin) + ", " + std::to_string(heads.end) +
                  "), expected all " + std::to_string(group) +
                  " of each key/value head that it has, as rows are dropped by what all of them "
                  "attend to; plan with '--partition auto', or without '--drop'");
  }
}

}  // namespace tandem::planner
