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
// The computing threads of both ends copy a message between their own tasks: the sender's cpu lane
// captures it, then the channel sends it; the receiver's cpu lane delivers it, and the receiver's
// tasks that depend on the transfer really wait for that delivery. A message that a device only
// passes on (a relay) is sent on arrival, without a capture. Graphs do not state these places:
// model/graph/message_schedule.hpp derives them, and model/predict/program.hpp lists all actions of
// the lanes in a step.
//
// A graph declares the storage of every device (model/graph/storage.hpp): buffers with their
// extents and formats. Tasks name the storage they use by their operands; model/graph/accesses.hpp
// lists what else they use.
//
// Lanes go on from one step to the next without a barrier. Further dependencies between steps are
// recorded as *events*: ends of tasks, by event number, since task indices differ from graph to
// graph. Example: task 17 of a prompt's graph and task 11 of a token's both release a block of
// weights; both record event 0, and the load that reuses the block's memory in the next step waits
// for it.
//
// With several steps in flight, a lane executes them in the order of submission. A pipeline's
// master would then wait for the first step's message to come back before it begins the second
// step. A graph may therefore mark the start of its *epilogue*: the work of one cpu lane on
// messages that come back. Lanes execute everything else when the step is submitted, and the
// epilogue when its messages are there.

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
// A change of all devices' key/value caches before the rows of a step. A fork copies nothing: the
// first sequence that writes into a shared block copies it.
struct CacheOp {
  CacheOpKind kind = CacheOpKind::free;
  std::int32_t sequence = 0;
  std::int32_t from = 0;       // fork
  std::int32_t positions = 0;  // fork, truncate
  bool operator==(const CacheOp&) const = default;
};

// Where rows of a step are, if a scheduler chooses the devices of each sequence's cache
// (planner/strategy/common/positions.hpp).
struct Place {
  DeviceIndex owner = 0;  // the device that computes and caches them
  // The positions by which the sequence's cache is partitioned over devices; 0: the owner has it
  // all.
  std::int32_t partitioned = 0;
  bool operator==(const Place&) const = default;
};

// Rows continue their sequence: `past` is its length after the operations in `cache`. A sequence
// that starts over is freed first.
struct Batch {
  std::vector<Segment> segments{};
  std::vector<CacheOp> cache{};  // in this order
  // Of each segment; none: the strategy alone determines devices. A sequence then has a segment for
  // each owner of its rows.
  std::vector<Place> places{};
  [[nodiscard]] std::int32_t rows() const;
  [[nodiscard]] std::int64_t sequences() const;  // different ones
  bool operator==(const Batch&) const = default;
};

// `keys` of an attend over all keys that the architecture's mask admits: causal, everything up to
// and including the row itself; else everything.
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
  // Positions of the keys in their sequence: of an attend or a score (or rows of `gathered`), or of
  // a transfer to `remote_kv`, which carries keys and values of these positions instead of its
  // rows'. Of a select: rows of the list. Of a transfer of weights: the heads or FFN columns of the
  // share that they belong to.
  Range keys = kCausal;
  std::int32_t window = 0;  // attend: number of last keys, up to its own, that a row sees; 0: all
  // attend: whether a row sees no keys of later rows of the batch (a causal mask).
  bool causal : 1 = true;
  // attend: also writes the softmax of its output's slot, so that its result can be merged with
  // results over other keys of the same rows.
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

// Returns whether `transfer` carries keys and values of positions outside the batch.
[[nodiscard]] inline bool moves_cache(const Task& transfer) {
  return transfer.output.kind == BufferKind::remote_kv;
}
// Returns whether `transfer` carries weights: all bytes of the sender's `block` of `layer`, as
// stored, to a slot of `gathered_weights`. Neither end copies the bytes, and they wait in no slot
// of the channel, so the graph's dependencies must order earlier uses of the destination before it.
[[nodiscard]] inline bool moves_weights(const Task& transfer) {
  return transfer.output.kind == BufferKind::gathered_weights;
}
// Returns the number of rows that `transfer` sends: its own, or one for each of its keys.
[[nodiscard]] inline std::int64_t sent_rows(const Task& transfer) {
  return moves_cache(transfer) ? transfer.keys.size() : transfer.rows.size();
}
// Returns whether the keys of an attend or score are gathered rows of its slot, not the cache's.
[[nodiscard]] inline bool reads_gathered(const Task& task) {
  return (task.kind == TaskKind::attend || task.kind == TaskKind::score) && task.input.slot > 0;
}

// Returns the bytes that `transfer` sends: its rows, each column in its format; of weights, columns
// are bytes.
[[nodiscard]] std::int64_t payload_bytes(const Task& transfer);

// The tasks of one step of all devices. A strategy's lowering builds a graph once for a batch's
// structure (its segments' rows, sampled rows and places); the same graph serves every later step
// of that structure through `advance`.
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

  // Makes the end of `task` the next event, for which tasks of the next step may wait. All graphs
  // of a run have the same events. Throws logic_error for an unknown task.
  void record_event(TaskIndex task);

  // Starts the epilogue: the tasks added from now on, all of one device's cpu lane, and the
  // deliveries that only they, or no task, wait for. They use only their own results and transfers.
  void begin_epilogue();
  [[nodiscard]] bool has_epilogue() const { return epilogue_ >= 0; }
  // The epilogue's first task, or size().
  [[nodiscard]] TaskIndex epilogue() const { return epilogue_ < 0 ? size() : epilogue_; }

  // Declares a buffer of a device. Repeating a declaration changes nothing. Throws logic_error for
  // a different declaration of the same name, and for a negative device.
  void declare(DeviceIndex device, const BufferDeclaration& buffer);
  // Returns the declarations of a device, in that order.
  [[nodiscard]] std::span<const BufferDeclaration> declared(DeviceIndex device) const;

  [[nodiscard]] const Batch& batch() const { return batch_; }
  [[nodiscard]] WireFormat wire() const { return wire_; }
  [[nodiscard]] const std::vector<Task>& tasks() const { return tasks_; }
  [[nodiscard]] TaskIndex size() const { return static_cast<TaskIndex>(tasks_.size()); }
  [[nodiscard]] std::span<const TaskIndex> dependencies(TaskIndex i) const {
    return {dependencies_.data() + first_dependency_[static_cast<std::size_t>(i)],
            dependencies_.data() + first_dependency_[static_cast<std::size_t>(i) + 1]};
  }

  // Returns the tasks whose ends are events, by event number.
  [[nodiscard]] std::span<const TaskIndex> events() const { return events_; }
  // Returns the numbers of the previous step's events that task `i` waits for.
  [[nodiscard]] std::span<const std::int32_t> awaited_events(TaskIndex i) const {
    return {awaited_events_.data() + first_awaited_event_[static_cast<std::size_t>(i)],
            awaited_events_.data() + first_awaited_event_[static_cast<std::size_t>(i) + 1]};
  }

  // Returns the memory of its members, without its own size.
  [[nodiscard]] std::size_t allocated_bytes() const;

  // Makes this the graph of a later step of the same structure: sets each segment's `past` and the
  // step's cache operations (default: none). Throws logic_error if the sizes differ, and as the
  // constructor does.
  void advance(std::span<const std::int32_t> past, std::vector<CacheOp> cache = {});
  // Makes this the graph of a later step of other sequences: replaces the whole batch. Throws
  // logic_error unless `batch` has the same segments by rows, sampled rows and places.
  void advance(const Batch& batch);

  // Identifies everything but `past` and `cache`: equal pointers mean equal tasks, dependencies and
  // segment sizes. A cache with this key must own the pointer, so that no later graph reuses it.
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
