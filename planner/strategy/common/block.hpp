#pragma once

// One device's tasks of a transformer, from which strategies are composed.

#include <span>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "model/graph/tasks.hpp"
#include "model/transformer/transformer.hpp"
#include "planner/strategy/common/window_tasks.hpp"

namespace tandem::planner {

// Appends tasks of one device to a graph. Every call returns the index of its last task. `after` is
// the task that the first one depends on (-1: none); the rest follow one another. Strategies that
// part rows as well compose a block of its pieces, each one task on some rows, which waits for what
// `wait` names.
class DeviceTasks {
 public:
  // `window`: loads and releases what the device streams, for as long as this; null: nothing is.
  DeviceTasks(model::TaskGraph& graph, const model::Transformer& transformer,
              model::DeviceIndex device, WindowTasks* window = nullptr);

  // hidden = embedding of the batch's tokens.
  model::TaskIndex embed();
  // partial = what the query heads `heads` add to hidden (norm, Q/K/V, attention, output).
  model::TaskIndex attention(std::int32_t layer, model::Range heads, model::TaskIndex after);
  // partial = what the FFN columns `columns` add to hidden (norm, up, down).
  model::TaskIndex ffn(std::int32_t layer, model::Range columns, model::TaskIndex after);
  // What a device must do for a block that it has no share in, if it goes on with the residual
  // stream: the block's norm where the stream continues from it (NormPlace::after), else nothing.
  model::TaskIndex pass_by(model::WeightBlock block, std::int32_t layer, model::TaskIndex after);
  // hidden += partial, the sum of `block` that is there `after`; normalised before where the
  // architecture has it.
  model::TaskIndex add_partial(model::WeightBlock block, std::int32_t layer,
                               model::TaskIndex after);
  // The same after all of `sum`; also after `hidden_ready`, the task that wrote hidden, unless -1.
  model::TaskIndex add_partial(model::WeightBlock block, std::int32_t layer,
                               std::span<const model::TaskIndex> sum,
                               model::TaskIndex hidden_ready);
  // The step's result. Of a decoder the next token of every segment: final norm, LM head and
  // sampling of the segments' last rows; adjacent last rows (decoding several sequences) share one
  // pass over the head's weights. Of an encoder all rows' hidden states: the final norm.
  model::TaskIndex finish(model::TaskIndex after);

  // The pieces of a decoder's epilogue, of `runs` (sampled_runs). Which of them pass over the head
  // together: all where its tiles are streamed, else one after the other.
  [[nodiscard]] std::vector<std::span<const model::Range>> passes(
      std::span<const model::Range> runs) const;
  // Final norm and logits, of the rows of the vocabulary that the device holds.
  model::TaskIndex logits(std::span<const model::Range> runs, model::TaskIndex after);
  // Of logits; or of candidates, which are the columns `all`, the first device's `columns`.
  model::TaskIndex sample(std::span<const model::Range> runs, model::TaskIndex after);
  model::TaskIndex sample(std::span<const model::Range> runs, model::Range all, model::Range chosen,
                          model::TaskIndex after);
  // candidates[chosen] = the best of the logits of the device's rows `vocabulary` of the head.
  model::TaskIndex shortlist(std::span<const model::Range> runs, model::Range vocabulary,
                             model::Range chosen, model::TaskIndex after);

  // The next task of this device's cpu also waits for these; -1 is none.
  void wait(model::TaskIndex task);
  void wait(std::span<const model::TaskIndex> tasks);
  // Before a block's first piece: the load of its weights, if they stream, for which that waits.
  void begin_block(model::WeightBlock block, std::int32_t layer, model::Range columns);
  // After its last one, `last`: the weights may go.
  void end_block(model::TaskIndex last) { computed(last); }
  // What the norm writes and the first product reads.
  [[nodiscard]] model::BufferRef normed() const { return normed_; }
  // `columns` of a block: query heads of attention, columns of the FFN.
  model::TaskIndex norm_rows(model::WeightBlock block, std::int32_t layer, model::Range rows);
  // Q, K and V; or the up projection.
  // `weights_slot`: the slot of the weights that are multiplied by (model::Task::weights_slot).
  model::TaskIndex first_product(model::WeightBlock block, std::int32_t layer, model::Range rows,
                                 model::Range columns, std::int16_t weights_slot = 0);
  model::TaskIndex attend(std::int32_t layer, model::Range rows, model::Range heads);
  // partial = the output projection; or the down projection.
  model::TaskIndex second_product(model::WeightBlock block, std::int32_t layer, model::Range rows,
                                  model::Range columns);
  // partial += the product with the gathered weights in `weights_slot`, by way of the first receive
  // buffer.
  model::TaskIndex add_product(model::WeightBlock block, std::int32_t layer, model::Range rows,
                               model::Range columns, std::int16_t weights_slot);
  // hidden += partial, which is there with `sum`.
  model::TaskIndex add_rows(model::WeightBlock block, std::int32_t layer, model::Range rows,
                            std::span<const model::TaskIndex> sum);
  // What follows the attention of rows that the device computes alone, with all of the layer's
  // weights in memory: the output projection and the FFN, each added to hidden.
  model::TaskIndex after_attention(std::int32_t layer, model::Range rows);

 private:
  // What a block's sum waits for, after it is normalised in its place.
  std::vector<model::TaskIndex> normed_sum(model::WeightBlock block, std::int32_t layer,
                                           model::Range rows,
                                           std::span<const model::TaskIndex> sum);
  [[nodiscard]] model::Task attend_task(std::int32_t layer, model::Range rows,
                                        model::Range heads) const;
  [[nodiscard]] model::TaskExtent extent(std::int32_t layer, model::Range rows,
                                         model::Range columns) const;
  // Also after `load`, unless -1.
  model::TaskIndex append(const model::Task& task, model::TaskIndex after,
                          model::TaskIndex load = -1);
  model::TaskIndex norm(model::WeightBlock block, std::int32_t layer, model::Range rows,
                        model::TaskIndex after, model::TaskIndex load = -1);
  model::TaskIndex load(model::WeightBlock block, std::int32_t layer, model::Range columns);
  model::TaskIndex computed(model::TaskIndex last);

  model::TaskGraph* graph_;
  const model::Transformer* transformer_;
  model::DeviceIndex device_;
  WindowTasks* window_;
  model::Range rows_;        // of the whole batch
  model::BufferRef normed_;  // what norms write; hidden itself, if the stream continues from there
  std::vector<model::TaskIndex> awaited_{};  // by the next task
};

// The sampled rows of every segment, one run for each LM head: adjacent rows of different segments
// are joined, those of one segment, which has one row of logits, are not.
[[nodiscard]] std::vector<model::Range> sampled_runs(const model::Batch& batch);

// Rows of the residual stream, from one device to the same rows of another.
model::TaskIndex send_hidden(model::TaskGraph& graph, const model::Transformer& transformer,
                             model::DeviceIndex from, model::DeviceIndex to, model::Range rows,
                             model::TaskIndex after);

// The same after several tasks.
model::TaskIndex send_hidden(model::TaskGraph& graph, const model::Transformer& transformer,
                             model::DeviceIndex from, model::DeviceIndex to, model::Range rows,
                             std::span<const model::TaskIndex> after);

// All columns of the residual stream.
[[nodiscard]] model::Range hidden_columns(const model::Transformer& transformer);

}  // namespace tandem::planner
