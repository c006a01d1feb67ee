#include "model/graph/tasks.hpp"

namespace tandem::model {
namespace {

Task task(TaskKind kind, const TaskExtent& of, BufferRef input, BufferRef output) {
  return {.kind = kind,
          .device = of.device,
          .layer = of.layer,
          .rows = of.rows,
          .columns = of.columns,
          .input = input,
          .output = output};
}

bool is_attention(WeightBlock block) { return block == WeightBlock::attention; }

Task product(Task task, WeightBlock block, std::int16_t gathered) {
  task.block = block;
  task.weights_slot = gathered;
  return task;
}

Task selected(Task task, std::int8_t selection) {
  task.selection = selection;
  return task;
}

}  // namespace

Task embed_task(DeviceIndex device, Range rows, bool from_disk) {
  return {.kind = from_disk ? TaskKind::fetch : TaskKind::embed,
          .block = WeightBlock::embedding,
          .device = device,
          .rows = rows,
          .output = {BufferKind::hidden}};
}

Task norm_task(const TaskExtent& of, WeightBlock block, BufferRef input, BufferRef output) {
  return product(task(TaskKind::norm, of, input, output), block, 0);
}

Task first_product_task(const TaskExtent& of, WeightBlock block, BufferRef input,
                        std::int16_t gathered) {
  const bool first = is_attention(block);
  return product(task(first ? TaskKind::project_qkv : TaskKind::ffn_up, of, input,
                      {first ? BufferKind::query : BufferKind::activation}),
                 block, gathered);
}

Task second_product_task(const TaskExtent& of, WeightBlock block, BufferRef output,
                         std::int16_t gathered) {
  const bool first = is_attention(block);
  return product(task(first ? TaskKind::project_out : TaskKind::ffn_down, of,
                      {first ? BufferKind::attention : BufferKind::activation}, output),
                 block, gathered);
}

Task attend_task(const TaskExtent& of, const Attention& attention) {
  Task made = task(TaskKind::attend, of, attention.query, attention.output);
  made.keys = attention.keys;
  made.window = attention.window;
  made.causal = attention.causal;
  made.statistics = attention.statistics;
  made.of_remote_kv = attention.of_remote_kv;
  made.selection = attention.selection;
  return made;
}

Task merge_task(const TaskExtent& of, BufferRef other, std::int8_t selection) {
  return selected(task(TaskKind::merge, of, other, {BufferKind::attention}), selection);
}

Task add_task(const TaskExtent& of, BufferRef input, BufferRef output, std::int8_t selection) {
  return selected(task(TaskKind::add, of, input, output), selection);
}

Task select_task(const TaskExtent& of, Range kept, BufferRef list) {
  Task made = task(TaskKind::select, of, {BufferKind::scores}, list);
  made.keys = kept;
  return made;
}

Task gather_task(const TaskExtent& of, BufferRef input, BufferRef output, std::int8_t selection) {
  return selected(task(TaskKind::gather, of, input, output), selection);
}

Task score_task(const TaskExtent& of, Range keys, BufferRef query, BufferRef output,
                std::int8_t selection) {
  Task made = selected(task(TaskKind::score, of, query, output), selection);
  made.keys = keys;
  return made;
}

Task lm_head_task(const TaskExtent& of, BufferRef input) {
  return product(task(TaskKind::lm_head, of, input, {BufferKind::logits}), WeightBlock::head, 0);
}

Task shortlist_task(const TaskExtent& of, Range chosen) {
  Task made = task(TaskKind::shortlist, of, {BufferKind::logits}, {BufferKind::candidates});
  made.chosen = chosen;
  return made;
}

Task sample_task(const TaskExtent& of, Range chosen) {
  const BufferKind from = chosen.empty() ? BufferKind::logits : BufferKind::candidates;
  Task made = task(TaskKind::sample, of, {from}, {});
  made.chosen = chosen;
  return made;
}

Task load_task(DeviceIndex device, WeightBlock block, std::int32_t layer, Range columns) {
  return {.kind = TaskKind::load,
          .lane = LaneKind::disk,
          .block = block,
          .device = device,
          .layer = layer,
          .columns = columns};
}

Task release_task(DeviceIndex device, WeightBlock block, std::int32_t layer, Range columns) {
  return {.kind = TaskKind::release,
          .block = block,
          .device = device,
          .layer = layer,
          .columns = columns};
}

Task transfer_task(const TaskExtent& of, DeviceIndex to, BufferRef input, BufferRef output,
                   WireFormat wire) {
  Task made = task(TaskKind::transfer, of, input, output);
  made.lane = LaneKind::channel;
  made.wire = wire;
  made.peer = to;
  return made;
}

Task cache_transfer_task(const TaskExtent& of, DeviceIndex to, Range keys, WireFormat wire) {
  Task made = transfer_task(of, to, {BufferKind::key_value}, {BufferKind::remote_kv}, wire);
  made.keys = keys;
  return made;
}

Task weights_transfer_task(DeviceIndex from, DeviceIndex to, WeightBlock block, std::int32_t layer,
                           Range held, std::int32_t bytes, std::int16_t gathered) {
  Task made = transfer_task({.device = from, .layer = layer, .rows = {0, 1}, .columns = {0, bytes}},
                            to, {}, {BufferKind::gathered_weights, gathered});
  made.block = block;
  made.keys = held;
  return made;
}

}  // namespace tandem::model
