#pragma once

// Tasks by kind. Each builder names the fields that its kind uses (TaskKind describes the
// computation) and sets no others.

#include <cstdint>

#include "model/graph/task_graph.hpp"

namespace tandem::model {

// The device, layer, rows and columns of a task.
struct TaskExtent {
  DeviceIndex device = 0;
  std::int32_t layer = -1;  // -1: outside the layers
  Range rows{};             // of the batch
  Range columns{};          // heads, FFN columns, rows of the vocabulary or elements: Task::columns
};

// hidden = the embeddings of `rows`; `from_disk` reads them row by row.
[[nodiscard]] Task embed_task(DeviceIndex device, Range rows, bool from_disk);
// `block`: whose norm weights.
[[nodiscard]] Task norm_task(const TaskExtent& of, WeightBlock block, BufferRef input,
                             BufferRef output);
// query (and the cache), or activation = the first product of an attention or FFN block.
// `gathered`: the slot of another device's weights; 0: its own.
[[nodiscard]] Task first_product_task(const TaskExtent& of, WeightBlock block, BufferRef input,
                                      std::int16_t gathered = 0);
// `output` = the second product, of attention or activation.
[[nodiscard]] Task second_product_task(const TaskExtent& of, WeightBlock block, BufferRef output,
                                       std::int16_t gathered = 0);

struct Attention {
  Range keys = kCausal;
  std::int32_t window = 0;    // number of last keys, up to its own, that a row sees; 0: all
  bool causal = true;         // a row sees no later row's keys
  bool statistics = false;    // writes softmax, too, for a merge
  bool of_remote_kv = false;  // keys came from other devices' caches
  std::int8_t selection = 0;  // the slot of the list by which rows were gathered; 0: none
  BufferRef query{BufferKind::query};
  BufferRef output{BufferKind::attention};
};
[[nodiscard]] Task attend_task(const TaskExtent& of, const Attention& attention);
// attention = the combination of itself and `other`; a list names the rows of `other`
// (`selection`).
[[nodiscard]] Task merge_task(const TaskExtent& of, BufferRef other, std::int8_t selection = 0);
// output += input; a list names the rows of `output`.
[[nodiscard]] Task add_task(const TaskExtent& of, BufferRef input, BufferRef output,
                            std::int8_t selection = 0);

// Sparse attention: `list` = the rows of `of.rows` with the highest scores, as many as `kept` has;
// output = the rows of `input` that a list names; output = the weights of `keys`.
[[nodiscard]] Task select_task(const TaskExtent& of, Range kept, BufferRef list);
[[nodiscard]] Task gather_task(const TaskExtent& of, BufferRef input, BufferRef output,
                               std::int8_t selection);
[[nodiscard]] Task score_task(const TaskExtent& of, Range keys, BufferRef query, BufferRef output,
                              std::int8_t selection = 0);

// logits = `input` times rows `of.columns` of the LM head.
[[nodiscard]] Task lm_head_task(const TaskExtent& of, BufferRef input);
// candidates[chosen] = the best of logits.
[[nodiscard]] Task shortlist_task(const TaskExtent& of, Range chosen);
// The next token, of logits; of candidates if `chosen`, the first device's columns, is not empty.
[[nodiscard]] Task sample_task(const TaskExtent& of, Range chosen = {});

// A streamed block of weights, its `columns`.
[[nodiscard]] Task load_task(DeviceIndex device, WeightBlock block, std::int32_t layer,
                             Range columns);
[[nodiscard]] Task release_task(DeviceIndex device, WeightBlock block, std::int32_t layer,
                                Range columns);

// output on `to` = input on `of.device`. `wire`: of activations that of the graph.
[[nodiscard]] Task transfer_task(const TaskExtent& of, DeviceIndex to, BufferRef input,
                                 BufferRef output, WireFormat wire = WireFormat::f32);
// Keys and values of positions `keys`, from the cache of `of.device` to `remote_kv` of `to`, for
// the attention of rows `of.rows`.
[[nodiscard]] Task cache_transfer_task(const TaskExtent& of, DeviceIndex to, Range keys,
                                       WireFormat wire);
// A block of weights, `bytes` of heads or FFN columns `held`, to the slot `gathered` of `to`.
[[nodiscard]] Task weights_transfer_task(DeviceIndex from, DeviceIndex to, WeightBlock block,
                                         std::int32_t layer, Range held, std::int32_t bytes,
                                         std::int16_t gathered);

}  // namespace tandem::model
