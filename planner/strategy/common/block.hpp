#pragma once

// One device's tasks of a transformer, from which strategies are composed.

#include <span>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "model/graph/tasks.hpp"
#include "model/transformer/transformer.hpp"
#include "planner/strategy/common/window_tasks.hpp"

namespace tandem::planner {

// Appends tasks of one device to a graph. Every call returns the index of its last task. The first
// task depends on `after` (-1: none), each other task on the one before. Strategies that split rows
// compose a block of its pieces instead: single tasks on some rows, with the dependencies that
// `wait` adds.
class DeviceTasks {
 public:
  // `window`: loads and releases the device's streamed weights, outlives this; null: no streaming.
  DeviceTasks(model::TaskGraph& graph, const model::Transformer& transformer,
              model::DeviceIndex device, WindowTasks* window = nullptr);

  // hidden = embedding of the batch's tokens.
  model::TaskIndex embed();
  // partial = the contribution of query heads `heads` to hidden (norm, Q/K/V, attention, output).
  model::TaskIndex attention(std::int32_t layer, model::Range heads, model::TaskIndex after);
  // partial = the contribution of FFN columns `columns` to hidden (norm, up, down).
  model::TaskIndex ffn(std::int32_t layer, model::Range columns, model::TaskIndex after);
  // Appends what a device needs of a block without a share in it to continue the residual stream:
  // the block's norm if the stream continues from it (NormPlace::after), else nothing.
  model::TaskIndex pass_by(model::WeightBlock block, std::int32_t layer, model::TaskIndex after);
  // hidden += partial, the sum of `block`, ready after `after`; normalised first if the
  // architecture does so.
  model::TaskIndex add_partial(model::WeightBlock block, std::int32_t layer,
                               model::TaskIndex after);
  // The same after all tasks of `sum` and after `hidden_ready`, the task that wrote hidden (-1:
  // none).
  model::TaskIndex add_partial(model::WeightBlock block, std::int32_t layer,
                               std::span<const model::TaskIndex> sum,
                               model::TaskIndex hidden_ready);
  // Appends the step's result. Decoder: the next token of every segment, by final norm, LM head and
  // sampling of the segments' last rows; adjacent last rows (several sequences decoding) share one
  // pass over the head's weights. Encoder: all rows' hidden states after the final norm.
  model::TaskIndex finish(model::TaskIndex after);

  // The pieces of a decoder's epilogue for `runs` (sampled_runs). passes() groups runs that share a
  // pass over the head: all of them if its tiles stream, else each has its own.
  [[nodiscard]] std::vector<std::span<const model::Range>> passes(
      std::span<const model::Range> runs) const;
  // Final norm and logits for the vocabulary rows that the device holds.
  model::TaskIndex logits(std::span<const model::Range> runs, model::TaskIndex after);
  // Samples from logits, or from candidates: columns `all`, of which `columns` are the first
  // device's.
  model::TaskIndex sample(std::span<const model::Range> runs, model::TaskIndex after);
  model::TaskIndex sample(std::span<const model::Range> runs, model::Range all, model::Range chosen,
                          model::TaskIndex after);
  // candidates[chosen] = the best of the logits of the device's rows `vocabulary` of the head.
  model::TaskIndex shortlist(std::span<const model::Range> runs, model::Range vocabulary,
                             model::Range chosen, model::TaskIndex after);

  // Makes the next task of this device's cpu also depend on these; -1 is none.
  void wait(model::TaskIndex task);
  void wait(std::span<const model::TaskIndex> tasks);
  // Before a block's first piece: loads its weights if they stream, and makes that piece wait.
  void begin_block(model::WeightBlock block, std::int32_t layer, model::Range columns);
  // After a block's last piece, `last`: releases its weights.
  void end_block(model::TaskIndex last) { computed(last); }
  // The output of norms and input of first products.
  [[nodiscard]] model::BufferRef normed() const { return normed_; }
  // `columns` of a block: query heads of attention, columns of the FFN.
  model::TaskIndex norm_rows(model::WeightBlock block, std::int32_t layer, model::Range rows);
  // Q, K and V; or the up projection. `weights_slot`: the slot of the weights that are multiplied
  // by (model::Task::weights_slot).
  model::TaskIndex first_product(model::WeightBlock block, std::int32_t layer, model::Range rows,
                                 model::Range columns, std::int16_t weights_slot = 0);
  model::TaskIndex attend(std::int32_t layer, model::Range rows, model::Range heads);
  // partial = the output projection; or the down projection.
  model::TaskIndex second_product(model::WeightBlock block, std::int32_t layer, model::Range rows,
                                  model::Range columns);
  // partial += the product with the gathered weights in `weights_slot`, through the first receive
  // buffer.
  model::TaskIndex add_product(model::WeightBlock block, std::int32_t layer, model::Range rows,
                               model::Range columns, std::int16_t weights_slot);
  // hidden += partial, ready after `sum`.
  model::TaskIndex add_rows(model::WeightBlock block, std::int32_t layer, model::Range rows,
                            std::span<const model::TaskIndex> sum);
  // The part of a layer after attention, for rows that the device computes alone with all of the
  // layer's weights: output projection and FFN, each added to hidden.
  model::TaskIndex after_attention(std::int32_t layer, model::Range rows);

 private:
  // Returns the tasks that a block's sum waits for, after normalising it in place.
  std::vector<model::TaskIndex> normed_sum(model::WeightBlock block, std::int32_t layer,
                                           model::Range rows,
                                           std::span<const model::TaskIndex> sum);
  [[nodiscard]] model::Task attend_task(std::int32_t layer, model::Range rows,
                                        model::Range heads) const;
  [[nodiscard]] model::TaskExtent extent(std::int32_t layer, model::Range rows,
                                         model::Range columns) const;
  // Also depends on `load`, unless -1.
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

// Returns the sampled rows of every segment, in runs that share an LM head pass: adjacent rows of
// different segments are joined. Rows of one segment are not, as it has one row of logits.
[[nodiscard]] std::vector<model::Range> sampled_runs(const model::Batch& batch);

// Sends rows of the residual stream from one device to the same rows of another.
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
