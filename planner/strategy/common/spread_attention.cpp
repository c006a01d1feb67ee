#include "planner/strategy/common/spread_attention.hpp"

#include <algorithm>
#include <utility>

#include "model/graph/tasks.hpp"
#include "planner/strategy/common/rows.hpp"

namespace tandem::planner {
namespace {

using model::BufferKind;
using model::BufferRef;
using model::DeviceIndex;
using model::Range;
using model::TaskIndex;

constexpr BufferRef kQuery{BufferKind::query, 0};
constexpr BufferRef kAttention{BufferKind::attention, 0};
constexpr BufferRef kSoftmax{BufferKind::softmax, 0};
constexpr std::int32_t kUnasked = 2;  // layers that are sent without a question

BufferRef arriving(BufferRef buffer) { return {buffer.kind, 1}; }

}  // namespace

std::vector<std::vector<TaskIndex>> attend_spread(model::TaskGraph& graph,
                                                  const model::Transformer& transformer,
                                                  std::int32_t layer,
                                                  std::span<const SpreadRows> all_rows) {
  const std::int64_t width = transformer.heads * transformer.head_dim;
  const auto send = [&](DeviceIndex from, DeviceIndex to, Range rows, std::int64_t columns,
                        BufferRef input, BufferRef output, std::span<const TaskIndex> after) {
    // Exponentials of a softmax weigh whole parts.
    const auto wire = input.kind == BufferKind::softmax ? model::WireFormat::f32 : graph.wire();
    return graph.add(
        model::transfer_task(
            {.device = from, .layer = layer, .rows = rows, .columns = whole_range(columns)}, to,
            input, output, wire),
        after);
  };
  const auto attend = [&](DeviceIndex device, const std::vector<RowKeys>& keys, bool merged,
                          TaskIndex after) {
    std::vector<TaskIndex> attended;
    attended.reserve(keys.size());
    for (const RowKeys& one : keys)
      attended.push_back(graph.add(
          model::attend_task({.device = device,
                              .layer = layer,
                              .rows = one.rows,
                              .columns = whole_range(transformer.heads)},
                             {.keys = one.keys,
                              .window = static_cast<std::int32_t>(transformer.window_of(layer)),
                              .causal = transformer.architecture().mask == model::Mask::causal,
                              .statistics = merged}),
          {after}));
    return attended;
  };
  std::vector<std::vector<TaskIndex>> queries;  // that were sent, by rows
  queries.reserve(all_rows.size());
  for (const SpreadRows& own : all_rows) {
    std::vector<TaskIndex>& sent = queries.emplace_back();
    for (const OtherKeys& other : own.others)
      sent.push_back(
          send(own.device, other.device, other.rows, width, kQuery, kQuery, {&own.projected, 1}));
  }
  std::vector<std::vector<TaskIndex>> attended;
  attended.reserve(all_rows.size());
  for (const SpreadRows& own : all_rows)
    attended.push_back(attend(own.device, own.keys, !own.others.empty(), own.projected));
  // Devices serve others before they wait for others.
  std::vector<std::vector<std::vector<TaskIndex>>> answers(all_rows.size());
  for (std::size_t i = 0; i < all_rows.size(); ++i) {
    for (std::size_t n = 0; n < queries[i].size(); ++n) {
      const OtherKeys& other = all_rows[i].others[n];
      answers[i].push_back(attend(other.device, other.keys, true, queries[i][n]));
    }
  }
  for (std::size_t i = 0; i < all_rows.size(); ++i) {
    const SpreadRows& own = all_rows[i];
    for (std::size_t n = 0; n < answers[i].size(); ++n) {
      const OtherKeys& other = own.others[n];
      std::vector<TaskIndex> after = std::move(attended[i]);
      after.push_back(send(other.device, own.device, other.rows, width, kAttention,
                           arriving(kAttention), answers[i][n]));
      after.push_back(send(other.device, own.device, other.rows, 2 * transformer.heads, kSoftmax,
                           arriving(kSoftmax), answers[i][n]));
      attended[i] = {graph.add(model::merge_task({.device = own.device,
                                                  .layer = layer,
                                                  .rows = other.rows,
                                                  .columns = whole_range(transformer.heads)},
                                                 arriving(kAttention)),
                               after)};
    }
  }
  return attended;
}

void migrate_cache(model::TaskGraph& graph, const model::Transformer& transformer,
                   std::span<const KeptRows> others, DeviceIndex owner, TaskIndex over) {
  const bool causal = transformer.architecture().mask == model::Mask::causal;
  const std::int32_t prompt = graph.batch().rows();
  const auto layers = static_cast<std::int32_t>(transformer.layers);
  std::vector<std::vector<TaskIndex>> arrived(others.size());  // by layer
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    const auto window = static_cast<std::int32_t>(transformer.window_of(layer));
    const std::int32_t first = causal && window > 0 ? std::max(0, prompt + 1 - window) : 0;
    for (std::size_t i = 0; i < others.size(); ++i) {
      const KeptRows& other = others[i];
      const Range rows = other.rows.intersect({first, prompt});
      if (rows.empty()) continue;
      const std::size_t before = arrived[i].size();
      std::vector<TaskIndex> after{other.made};
      if (before >= kUnasked) {
        const BufferRef hidden{BufferKind::hidden};
        after.push_back(graph.add(
            model::transfer_task(
                {.device = owner, .layer = layer, .rows = {prompt - 1, prompt}, .columns = {0, 1}},
                other.device, hidden, hidden),
            {over, arrived[i][before - kUnasked]}));
      }
      const BufferRef cache{BufferKind::key_value};
      arrived[i].push_back(
          graph.add(model::transfer_task(
                        {.device = other.device,
                         .layer = layer,
                         .rows = rows,
                         .columns = whole_range(2 * transformer.kv_heads * transformer.head_dim)},
                        owner, cache, cache, graph.wire()),
                    after));
    }
  }
}

}  // namespace tandem::planner
