#include "planner/strategy/common/spread_attention.hpp"

#include <algorithm>

namespace tandem::planner {
namespace {

using model::BufferKind;
using model::BufferRef;
using model::DeviceIndex;
using model::Range;
using model::Task;
using model::TaskIndex;

constexpr BufferRef kQuery{BufferKind::query, 0};
constexpr BufferRef kAttention{BufferKind::attention, 0};
constexpr BufferRef kSoftmax{BufferKind::softmax, 0};
constexpr std::int32_t kUnasked = 2;  // layers that are sent without a question

BufferRef arriving(BufferRef buffer) { return {buffer.kind, 1}; }

Range all(std::int64_t size) { return {0, static_cast<std::int32_t>(size)}; }

Task transfer(DeviceIndex from, DeviceIndex to, std::int32_t layer, Range rows,
              std::int64_t columns, BufferRef input, BufferRef output) {
  Task task;
  task.kind = model::TaskKind::transfer;
  task.lane = model::LaneKind::channel;
  task.device = from;
  task.peer = to;
  task.layer = layer;
  task.rows = rows;
  task.columns = all(columns);
  task.input = input;
  task.output = output;
  return task;
}

}  // namespace

std::vector<TaskIndex> attend_spread(model::TaskGraph& graph, const model::Transformer& transformer,
                                     std::int32_t layer, std::span<const SpreadRows> all_rows) {
  const std::int64_t width = transformer.heads * transformer.head_dim;
  const auto send = [&](DeviceIndex from, DeviceIndex to, Range rows, std::int64_t columns,
                        BufferRef input, BufferRef output, TaskIndex after) {
    Task task = transfer(from, to, layer, rows, columns, input, output);
    // Exponentials of a softmax weigh whole parts.
    if (input.kind != BufferKind::softmax) task.wire = graph.wire();
    return graph.add(task, {after});
  };
  const auto attend = [&](DeviceIndex device, Range keys, Range rows, bool merged,
                          TaskIndex after) {
    Task task;
    task.kind = model::TaskKind::attend;
    task.device = device;
    task.layer = layer;
    task.rows = rows;
    task.columns = all(transformer.heads);
    task.keys = keys;
    task.window = static_cast<std::int32_t>(transformer.window_of(layer));
    task.later_keys = transformer.architecture().mask != model::Mask::causal;
    task.statistics = merged;
    task.input = kQuery;
    task.output = kAttention;
    return graph.add(task, {after});
  };
  std::vector<std::vector<TaskIndex>> answers;  // by rows: of the query that was sent, then its
  answers.reserve(all_rows.size());
  for (const SpreadRows& own : all_rows) {
    std::vector<TaskIndex>& sent = answers.emplace_back();
    for (const OtherKeys& other : own.others)
      sent.push_back(
          send(own.device, other.device, own.rows, width, kQuery, kQuery, own.projected));
  }
  std::vector<TaskIndex> attended;
  attended.reserve(all_rows.size());
  for (const SpreadRows& own : all_rows)
    attended.push_back(attend(own.device, own.keys, own.rows, !own.others.empty(), own.projected));
  // All that devices do for others comes before they wait for others.
  for (std::size_t i = 0; i < all_rows.size(); ++i) {
    for (std::size_t n = 0; n < answers[i].size(); ++n) {
      const OtherKeys& other = all_rows[i].others[n];
      answers[i][n] = attend(other.device, other.keys, all_rows[i].rows, true, answers[i][n]);
    }
  }
  for (std::size_t i = 0; i < all_rows.size(); ++i) {
    const SpreadRows& own = all_rows[i];
    for (std::size_t n = 0; n < answers[i].size(); ++n) {
      const DeviceIndex other = own.others[n].device;
      const TaskIndex result =
          send(other, own.device, own.rows, width, kAttention, arriving(kAttention), answers[i][n]);
      const TaskIndex softmax = send(other, own.device, own.rows, 2 * transformer.heads, kSoftmax,
                                     arriving(kSoftmax), answers[i][n]);
      attended[i] = graph.add(merge_task(own.device, layer, own.rows, transformer.heads),
                              {attended[i], result, softmax});
    }
  }
  return attended;
}

Task merge_task(DeviceIndex device, std::int32_t layer, Range rows, std::int64_t heads) {
  Task task;
  task.kind = model::TaskKind::merge;
  task.device = device;
  task.layer = layer;
  task.rows = rows;
  task.columns = all(heads);
  task.input = arriving(kAttention);
  task.output = kAttention;
  return task;
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
        after.push_back(
            graph.add(transfer(owner, other.device, layer, {prompt - 1, prompt}, 1, hidden, hidden),
                      {over, arrived[i][before - kUnasked]}));
      }
      const BufferRef cache{BufferKind::key_value};
      Task task = transfer(other.device, owner, layer, rows,
                           2 * transformer.kv_heads * transformer.head_dim, cache, cache);
      task.wire = graph.wire();
      arrived[i].push_back(graph.add(task, after));
    }
  }
}

}  // namespace tandem::planner
