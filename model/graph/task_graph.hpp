#pragma once

// The vocabulary that every strategy is written in and every backend executes.
//
// A task runs in a lane: a device's `cpu`, a device's `disk`, or the `channel` from one device to
// another. A lane runs its tasks one at a time in the order of their index, each as soon as its
// dependencies are done. A dependency always has a smaller index, so index order is a valid serial
// execution, and that serial execution defines the results: a transfer carries the values its rows
// have at its index, whenever it is really sent and received.
//
// A channel is occupied by a message while its bytes are being sent; the message is done (its
// dependants may start) one route latency later. So consecutive messages of a channel overlap in
// flight, as they do on a TCP connection, and never overtake each other.
//
// Both ends' computing threads copy a message, between their own tasks: the cpu lane of the sender
// captures it, then the channel takes it; the cpu lane of the receiver delivers it, which is what
// the receiver's tasks that depend on the transfer really wait for. What a device only passes on
// leaves it as it arrives (a relay), without a capture. Graphs do not say when and which:
// model/graph/message_schedule.hpp has the rule, model/predict/program.hpp a step with all that
// lanes do in it.
//
// A graph declares the storage of every device (model/graph/storage.hpp): which buffers there are,
// how large, in which format. Tasks name what they touch by their operands;
// model/graph/message_schedule.hpp knows what they touch besides.
//
// Lanes go on from one step to the next without a barrier. What a task of the next step must wait
// for besides, a graph records as *events*: ends of tasks, by number, as indices differ from graph
// to graph. An example: a block of weights is released by task 17 of a prompt's graph and by task
// 11 of a token's; both record event 0, for which the load waits that takes the block's place in
// the next step.
//
// Where a scheduler has several steps in flight, a lane takes them up in the order in which they
// were submitted. A pipeline's master would then wait, before it begins the second step, for the
// message with which the first one comes back to it. So a graph may say where its *epilogue*
// begins: what one cpu lane does with messages that come back. Lanes take up all else when the step
// is submitted, and the epilogue when its messages are there.

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/range.hpp"
#include "model/cluster/cluster.hpp"
#include "model/graph/storage.hpp"
#include "model/transformer/wire_format.hpp"

namespace tandem::model {

using TaskIndex = std::int32_t;  // position in TaskGraph::tasks(); with the step, a task's id

// What a task does. r: rows, [a:b): columns. x is `input`, y is `output`; both on task.device.
enum class TaskKind : std::uint8_t {
  embed,        // y[r] = E[token of r] (+ rows of learned positions, token types)   y: hidden
  fetch,        // as embed, with each row read from the disk: E is not in memory
  norm,         // y[r] = norm(x[r]); the weight is that of `block`; y may be x. Of partial: that of
                // what the block adds up to (Architecture::sum_norms)
  project_qkv,  // y[r, heads] = rope(x[r] Wq); K, V of the kv heads to the rows' cache positions;
                // without rope where positions are learned; biases are the architecture's
  attend,       // y[r, heads] = softmax(q k^T / sqrt(head_dim)) v over `keys`, by the mask and
           // `window`; scale and cap of the scores are the model's. With x of a slot other than
           // 0, r and `keys` are rows of what was gathered there, and `keys` not of the cache
  project_out,  // y[r] = x[r, heads] Wo[heads]               a partial sum over heads
  ffn_up,       // y[r, columns] = act(x[r] Wgate) * (x[r] Wup)   (without gate: act(x Wup))
  ffn_down,     // y[r] = x[r, columns] Wdown[columns]        a partial sum over columns
  add,          // y[r, columns] += x[r, columns]; of partial to hidden: times residual_scale
  lm_head,      // y[r, columns] = x[r] Whead[columns]; columns: of the vocabulary
  sample,       // the next token of the sequence of row r, from x[r]: logits, or candidates
  load,         // weight `block` of `layer`, disk to memory (disk lane)
  release,      // the memory of weight `block` of `layer`
  transfer,     // y[r, columns] on `peer` = x[r, columns] on `device` (channel lane), rounded to
                // `wire`; x, too, goes on with what was sent, so that both ends are replicas
  // What a cpu lane does for a transfer; in profiles and spans, never in graphs.
  capture,  // copies the payload out, at the sender
  deliver,  // copies the payload in, at the receiver
  // y[r, heads] = attention over the keys of x and those of y, from what either gave alone:
  // weighted by their denominators, maxima taken into account (CSPS, equation 5). x, y: attention,
  // of different slots; the softmax of y's slot becomes that of both.
  // With a list the rows of x are those of the list, and go to the rows of y that it names.
  merge,
  shortlist,  // y[r, chosen] = the best of x[r, columns], logits, and their softmax's denominator
  // Sparse attention (CSPS, 3.2.4), by key/value head. `selection` names a list (BufferKind), 0
  // none: then gathered rows are the batch's own.
  select,  // the list y[keys] = of `rows` so many as `keys` has with the highest x, ascending; of
           // equal ones those before
  gather,  // y[r, heads] = x[rows that the list names at r]: of query, key_value or softmax
  // y[keys, kv heads] = sum over r and the heads of each of exp(q k - largest) / denominator: what
  // the keys weigh, by the softmax beside x
  score,
};
inline constexpr int kTaskKinds = 21;
[[nodiscard]] std::string_view to_string(TaskKind kind);

enum class LaneKind : std::uint8_t { cpu, disk, channel };
[[nodiscard]] std::string_view to_string(LaneKind lane);

// The unit of weight storage: what a load brings and a release frees, and whose norm a norm uses
// (attention: before attention; ffn: before the FFN; head: the final norm).
enum class WeightBlock : std::uint8_t { none, embedding, attention, ffn, head };
[[nodiscard]] std::string_view to_string(WeightBlock block);

// Rows of one step. Rows are numbered over the segments in order.
struct Segment {
  std::int32_t sequence = 0;  // whose key/value cache; any number from 0
  std::int32_t past = 0;      // positions already in the cache
  std::int32_t rows = 1;      // tokens of this step; positions past .. past + rows - 1
  std::int32_t sampled = 1;   // of these, the last so many are sampled from
  bool operator==(const Segment&) const = default;
};

enum class CacheOpKind : std::uint8_t {
  free = 1,  // gives back all that `sequence` has; nothing if it has nothing
  fork,      // `sequence`, which has nothing, begins with the first `positions` of sequence `from`
  truncate,  // `sequence` keeps its first `positions`
};
// What happens to the key/value caches of all devices before the rows of a step. A fork copies
// nothing: what is shared is copied by whoever is first to write beside it.
struct CacheOp {
  CacheOpKind kind = CacheOpKind::free;
  std::int32_t sequence = 0;
  std::int32_t from = 0;       // fork
  std::int32_t positions = 0;  // fork, truncate
  bool operator==(const CacheOp&) const = default;
};

// A sequence's rows continue it: `past` is what its cache has after `cache`. One that begins anew
// is freed first.
struct Batch {
  std::vector<Segment> segments{};
  std::vector<CacheOp> cache{};  // in this order
  [[nodiscard]] std::int32_t rows() const;
  bool operator==(const Batch&) const = default;
};

// `keys` of an attend over all that the architecture's mask lets a row see: everything before and
// including its own row, or everything.
inline constexpr Range kCausal{0, std::numeric_limits<std::int32_t>::max()};

struct Task {
  TaskKind kind = TaskKind::add;
  LaneKind lane = LaneKind::cpu;
  WeightBlock block = WeightBlock::none;
  WireFormat wire = WireFormat::f32;  // transfer: how its numbers travel
  DeviceIndex device = 0;             // where it runs; of a channel: the sender
  DeviceIndex peer = -1;              // of a channel: the receiver; else -1
  std::int32_t layer = -1;            // -1: outside the layers
  Range rows{};                       // of the batch
  // Heads of the model (project_qkv, attend, merge, project_out), FFN columns of the model (ffn_up,
  // ffn_down), rows of the vocabulary (lm_head, shortlist), element columns of the buffers (add,
  // transfer, sample).
  Range columns{};
  // Positions of the keys, in their sequence: of an attend or a score (or rows of `gathered`), and
  // of a transfer of the cache to `remote_kv`, which carries keys and values of these instead of
  // those of its rows. Of a select: rows of the list. Of a transfer of weights: the heads or FFN
  // columns of the share that they are of.
  Range keys = kCausal;
  std::int32_t window = 0;  // attend: of these a row sees the last so many up to its own; 0: all
  // attend: whether a row sees no keys of later rows of the batch (a causal mask).
  bool causal : 1 = true;
  // attend: also writes the softmax of its output's slot, so that its result can be merged with
  // those over other keys of the same rows.
  bool statistics : 1 = false;
  bool of_remote_kv : 1 = false;  // attend: over keys in `remote_kv`, not in the cache
  // merge, add, gather, attend, score: the slot of the list by which rows were gathered; 0: none.
  // Of an add, rows of x go to those of y that the list names.
  std::int8_t selection = 0;
  // project_qkv, project_out, ffn_up, ffn_down: the slot of `gathered_weights` that has the
  // weights, a block of another device's share; 0: they are the device's own.
  std::int16_t weights_slot = 0;
  // shortlist: columns of the candidates that it writes; sample of candidates: of the first
  // device's, as many as every device's
  Range chosen{};
  BufferRef input{};
  BufferRef output{};
};

// Whether `transfer` carries keys and values of positions outside the batch.
[[nodiscard]] inline bool moves_cache(const Task& transfer) {
  return transfer.output.kind == BufferKind::remote_kv;
}
// Whether `transfer` carries weights: the sender's `block` of `layer` as it lies in its memory, all
// bytes of it, to a slot of `gathered_weights`. It goes from where it lies to where it is used:
// neither end copies it, and it waits in no slot of the channel, so whatever used the place before
// has to come before it by dependencies.
[[nodiscard]] inline bool moves_weights(const Task& transfer) {
  return transfer.output.kind == BufferKind::gathered_weights;
}
// Returns how many rows `transfer` sends: its own, or one for each of its keys.
[[nodiscard]] inline std::int64_t sent_rows(const Task& transfer) {
  return moves_cache(transfer) ? transfer.keys.size() : transfer.rows.size();
}
// Whether the keys of an attend or score are those that were gathered in its slot, not the cache's.
[[nodiscard]] inline bool reads_gathered(const Task& task) {
  return (task.kind == TaskKind::attend || task.kind == TaskKind::score) && task.input.slot > 0;
}

// Returns the bytes that `transfer` sends: its rows, each of its columns in its format; of weights
// columns are bytes.
[[nodiscard]] std::int64_t payload_bytes(const Task& transfer);

// The tasks of one step of all devices. A strategy's lowering builds a graph once for a batch's
// structure (its segments' rows and sampled rows); the same graph serves every later step of that
// structure through `advance`.
class TaskGraph {
 public:
  // Throws logic_error unless every segment has at least one row, a past of at least 0 and no more
  // sampled rows than rows, and no cache operation negative positions. `wire`: the format that
  // lowerings send activations in.
  explicit TaskGraph(Batch batch, WireFormat wire = WireFormat::f32);

  // Appends `task`; returns its index. Throws logic_error unless every dependency is smaller than
  // that index and the task is well formed (lane fits kind, peer set for channels only, rows within
  // the batch, ranges not reversed).
  // `events` are the numbers of events of the step before that the task also waits for; in step 0
  // none are awaited. Throws logic_error if one is negative.
  TaskIndex add(const Task& task, std::span<const TaskIndex> dependencies,
                std::span<const std::int32_t> events = {});
  TaskIndex add(const Task& task, std::initializer_list<TaskIndex> dependencies,
                std::initializer_list<std::int32_t> events = {}) {
    return add(task, std::span<const TaskIndex>(dependencies.begin(), dependencies.size()),
               std::span<const std::int32_t>(events.begin(), events.size()));
  }

  // Makes the end of `task` the next event: tasks of the next step may wait for it. The graphs of
  // one run have the same events. Throws logic_error for a task that there is not.
  void record_event(TaskIndex task);

  // Makes the tasks added from now on the epilogue, and the delivery of what they or nobody waits
  // for: of one device's cpu lane. They touch only what they make and what transfers bring.
  void begin_epilogue();
  [[nodiscard]] bool has_epilogue() const { return epilogue_ >= 0; }
  // The epilogue's first task, or size().
  [[nodiscard]] TaskIndex epilogue() const { return epilogue_ < 0 ? size() : epilogue_; }

  // Says that the device has this buffer. Saying so again changes nothing; throws logic_error for
  // another declaration of the same name, and for a negative device.
  void declare(DeviceIndex device, const BufferDeclaration& buffer);
  // What was declared of a device, in that order.
  [[nodiscard]] std::span<const BufferDeclaration> declared(DeviceIndex device) const;

  [[nodiscard]] const Batch& batch() const { return batch_; }
  [[nodiscard]] WireFormat wire() const { return wire_; }
  [[nodiscard]] const std::vector<Task>& tasks() const { return tasks_; }
  [[nodiscard]] TaskIndex size() const { return static_cast<TaskIndex>(tasks_.size()); }
  [[nodiscard]] std::span<const TaskIndex> dependencies(TaskIndex i) const {
    return {dependencies_.data() + first_dependency_[static_cast<std::size_t>(i)],
            dependencies_.data() + first_dependency_[static_cast<std::size_t>(i) + 1]};
  }

  // The tasks whose ends are the events, by the events' numbers.
  [[nodiscard]] std::span<const TaskIndex> events() const { return events_; }
  // The numbers of the events of the step before that task `i` waits for.
  [[nodiscard]] std::span<const std::int32_t> awaited_events(TaskIndex i) const {
    return {awaited_events_.data() + first_awaited_event_[static_cast<std::size_t>(i)],
            awaited_events_.data() + first_awaited_event_[static_cast<std::size_t>(i) + 1]};
  }

  // Memory that it takes, its own size left out.
  [[nodiscard]] std::size_t allocated_bytes() const;

  // Makes this the graph of a later step of the same structure: sets each segment's `past`, and the
  // cache operations of that step, which are none unless said.
  // Throws logic_error if the sizes differ, and as the constructor does.
  void advance(std::span<const std::int32_t> past, std::vector<CacheOp> cache = {});
  // Makes this the graph of a later step of other sequences: takes over the whole batch. Throws
  // logic_error unless `batch` has as many segments, each of as many rows and sampled rows.
  void advance(const Batch& batch);

  // The identity of everything but `past` and `cache`: equal pointers mean equal tasks,
  // dependencies and segment sizes. Whoever caches by it must hold it, so that no later graph gets
  // the same address.
  [[nodiscard]] const std::shared_ptr<const char>& structure() const { return structure_; }

 private:
  Batch batch_;
  std::int32_t rows_ = 0;  // of the batch
  std::vector<Task> tasks_;
  std::vector<std::vector<BufferDeclaration>> declared_;  // by device
  std::vector<TaskIndex> dependencies_;
  std::vector<std::size_t> first_dependency_{0};
  std::vector<TaskIndex> events_;
  std::vector<std::int32_t> awaited_events_;  // that tasks wait for
  std::vector<std::size_t> first_awaited_event_{0};
  TaskIndex epilogue_ = -1;
  WireFormat wire_;
  std::shared_ptr<const char> structure_;
};

}  // namespace tandem::model
