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
using model::TaskKind;

// What is merged or added at once needs no slot of its own level.
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

void RowGroupAttention::add(DeviceIndex device, TaskKind kind, Range rows, Range columns,
                            BufferRef input, BufferRef output, Range keys, std::int8_t list) {
  model::Task task;
  task.kind = kind;
  task.device = device;
  task.layer = layer_;
  task.rows = rows;
  task.columns = columns;
  task.input = input;
  task.output = output;
  task.selection = list;
  if (!keys.empty()) task.keys = keys;
  task.statistics = kind == TaskKind::attend && (!dense_ || scored_);
  graph_->add(task, {});  // all in the order of the device's lane
}

void RowGroupAttention::attend(DeviceIndex device, Range heads) {
  if (dense_) {
    return add(device, TaskKind::attend, {0, graph_->batch().rows()}, heads, {BufferKind::query},
               {BufferKind::attention});
  }
  for (const Range rows : rows_) {
    if (!rows.empty())
      add(device, TaskKind::attend, rows, heads, {BufferKind::query}, {BufferKind::attention},
          rows);
  }
  for (const SparseLevel& level : levels_) {
    for (const KeptPart& part : level.parts()) {
      const Range own = part.heads.intersect(heads);
      if (!own.empty()) attend(device, level, part, own);
    }
  }
}

// Of one level, heads that drop alike.
void RowGroupAttention::attend(DeviceIndex device, const SparseLevel& level, const KeptPart& part,
                               Range heads) {
  const std::int8_t list = level.list(part);
  for (std::size_t i = 0; part.lists && i < rows_.size(); ++i) {
    if (!level.takes_part(i)) continue;
    add(device, TaskKind::select, rows_[i], heads, {BufferKind::scores},
        {BufferKind::selection, level.slot()}, part.kept[i]);
    const Range queries = level.queries(part, i);
    const Range keys = level.keys(part, i);
    if (!queries.empty())
      add(device, TaskKind::gather, queries, heads, {BufferKind::query},
          {BufferKind::query, level.slot()}, {}, list);
    if (!keys.empty())
      add(device, TaskKind::gather, keys, heads, {BufferKind::key_value},
          {BufferKind::gathered, level.slot()}, {}, list);
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Range queries = level.queries(part, i);
    const Range keys = level.asked(part, i);
    if (queries.empty() || keys.empty()) continue;
    add(device, TaskKind::attend, queries, heads, {BufferKind::query, list},
        {BufferKind::attention, kAtOnce}, keys, list);
    add(device, TaskKind::merge, queries, heads, {BufferKind::attention, kAtOnce},
        {BufferKind::attention}, {}, list);
  }
}

void RowGroupAttention::weigh(DeviceIndex device, Range heads) {
  if (!scored_) return;
  if (dense_) {
    const Range all{0, graph_->batch().rows()};
    return add(device, TaskKind::score, all, heads, {BufferKind::query}, {BufferKind::scores}, all);
  }
  for (const Range rows : rows_) {
    if (!rows.empty())
      add(device, TaskKind::score, rows, heads, {BufferKind::query}, {BufferKind::scores}, rows);
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
      add(device, TaskKind::gather, queries, heads, {BufferKind::softmax},
          {BufferKind::softmax, list}, {}, list);
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Range keys = level.keys(part, i);
    if (keys.empty()) continue;
    add(device, TaskKind::score, level.askers(part, i), heads, {BufferKind::query, list},
        {BufferKind::scores, kAtOnce}, keys, list);
    add(device, TaskKind::add, keys, {kv.begin - first_kv, kv.end - first_kv},
        {BufferKind::scores, kAtOnce}, {BufferKind::scores}, {}, list);
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
      {.name = {BufferKind::panels}, .rows = model::RowCount::positions, .columns = 2 * d});
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
