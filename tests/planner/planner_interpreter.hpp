#pragma once

// A numeric interpreter of task graphs in double precision, and the same transformer unsharded:
// written for clarity, independent of exec.

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::test {

using Row = std::vector<double>;

// Logits of the last token of `tokens`, computed from the whole sequence without a cache.
Row reference_logits(const model::Transformer& transformer, const std::vector<int>& tokens);

// Executes graphs in index order. A device computes with the heads and columns of its share and of
// what visits it only,
// attends only to the keys and values it has itself computed, and reads NaN from what nobody has
// written in this step. Throws logic_error where a block is used that the memory scheduler has not
// in memory.
class Interpreter {
 public:
  explicit Interpreter(const planner::Plan& plan) : plan_(&plan) {}

  // `tokens`: one a row of the batch. Returns the logits from which each row was sampled.
  std::map<int, Row> run(const model::TaskGraph& graph, const std::vector<int>& tokens);

  // Elements sent so far, from one device to another.
  [[nodiscard]] double elements_sent() const { return elements_sent_; }

 private:
  struct Position {  // of one key/value head
    Row key;
    Row value;
  };
  using Buffer = std::map<int, Row>;  // by row of the batch

  struct Held {  // a streamed block in memory
    model::WeightBlock block;
    std::int32_t layer;
    model::Range columns;
  };

  // Throws logic_error if `task` uses a block outside [load, release], or overfills the window.
  void keep_window(const model::Task& task);
  Row& row(model::DeviceIndex device, model::BufferRef buffer, int r);
  void execute(const model::Batch& batch, const model::Task& task, const std::vector<int>& tokens,
               std::map<int, Row>& sampled);
  void execute_row(const model::Batch& batch, const model::Task& task, int r);
  // Throws logic_error unless a product's weights are among its device's own, or visit it.
  void need_weights(const model::Task& task, model::Range held) const;
  void project_qkv(const model::Batch& batch, const model::Task& task, int r);
  // Of keys at other devices: to the place of the sequence kRemoteKv.
  void copy_cache(const model::Batch& batch, const model::Task& task, int r);
  void attend(const model::Batch& batch, const model::Task& task, int r);
  void merge(const model::Task& task, int r);
  Position& cached(int device, int layer, int sequence, int head, int position);

  static constexpr int kRemoteKv = -1;

  const planner::Plan* plan_;
  std::map<std::tuple<int, model::BufferKind, int>, Buffer> buffers_;  // device, kind, slot
  // device, layer, sequence, key/value head: by position
  std::map<std::tuple<int, int, int, int>, std::vector<Position>> cache_;
  std::map<int, std::vector<Held>> held_;                // device: over steps
  std::map<std::pair<int, int>, Held> gathered_blocks_;  // device, slot: of this step
  double elements_sent_ = 0.0;
};

// Checks (doctest) that `plan` gives the unsharded model's logits for a prompt and three tokens.
void check_close(const Row& actual, const Row& expected);
void check_generation(const planner::Plan& plan);
// The same for prompts of 1 to 7 tokens, then tokens; scored texts; a prompt in chunks; and, if
// `several`, sequences that share steps.
void check_batches(const planner::Plan& plan, bool several);

}  // namespace tandem::test
