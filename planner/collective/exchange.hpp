#pragma once

// The primitives of every collective: chunks of a buffer on several devices, copied and added.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/graph/accesses.hpp"
#include "model/graph/task_graph.hpp"
#include "model/graph/tasks.hpp"

namespace tandem::planner {

struct Participant {
  model::DeviceIndex device = 0;
  bool contributes = true;      // its `partial` holds a term of the sum
  bool receives = true;         // needs the sum in its `partial`
  model::TaskIndex ready = -1;  // in: the task that made its term, -1: none
  // Out: the tasks that together made the sum in its `partial`; empty if it does not receive it.
  std::vector<model::TaskIndex> sum{};
};

struct Sum {
  model::DeviceIndex master = 0;  // always gets the sum
  std::int32_t layer = -1;        // copied to the tasks
  model::Range rows;              // of the batch
  model::Range columns;           // of `partial`
};

// A partition of the exchanged data into chunks, by columns or by rows, of any sizes. Chunk i is
// the range chunks[i] of that dimension and all of the other.
struct Cut {
  enum class Axis : std::uint8_t { columns, rows };
  Axis axis = Axis::columns;
  std::vector<model::Range> chunks{};
};
// Returns chunks that differ by at most one column, or by one block if `block` > 1; chunks begin at
// multiples of the block.
[[nodiscard]] Cut equal_columns(model::Range columns, std::int32_t chunks, std::int32_t block = 1);

// The state of one buffer on all ranks while a collective is lowered: which chunks hold data, and
// which task made it. Ranks are positions in `ranks`; rank 0 is a sum's master. Empty chunks are
// never sent.
//
// Chunks may be made lazily: `make_with` sets the function that makes a chunk when it is first
// used, and `use_with` the function that uses a chunk on arrival. A product can thus be computed by
// tiles between the messages that bring or take them.
class Exchange {
 public:
  using Hook = std::function<model::TaskIndex(std::int32_t rank, std::int32_t chunk)>;

  // A sum of `partial`, partitioned into `chunks` by columns. `graph` outlives this. Throws
  // logic_error without ranks or chunks.
  Exchange(model::TaskGraph& graph, const Sum& sum, std::vector<Participant> ranks,
           std::int32_t chunks);
  // An exchange of any buffer and partition. The master also gets what it receives.
  Exchange(model::TaskGraph& graph, const Sum& sum, std::vector<Participant> ranks, Cut cut,
           model::BufferRef buffer);

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(ranks_.size()); }
  [[nodiscard]] std::int32_t chunks() const {
    return static_cast<std::int32_t>(cut_.chunks.size());
  }
  [[nodiscard]] model::Range all() const { return {0, chunks()}; }
  // Returns the chunks that belong to a rank if all ranks own the same number, in order.
  [[nodiscard]] model::Range part(std::int32_t rank) const;
  // Returns whether the rank needs the result.
  [[nodiscard]] bool receives(std::int32_t rank) const;
  // Returns whether only the master receives.
  [[nodiscard]] bool master_alone() const;
  // Returns the area of consecutive chunks. Throws logic_error unless they are adjacent.
  [[nodiscard]] model::Area area(model::Range chunks) const;
  [[nodiscard]] model::Range columns(model::Range chunks) const { return area(chunks).columns; }
  [[nodiscard]] bool empty(model::Range chunks) const;

  // `hook` returns the task that makes a chunk of a contributing rank, or -1 if no task does. It is
  // called when the chunk is first needed, at the latest by `make`. Without a hook, chunks are
  // ready with their participant.
  void make_with(Hook hook);
  void make(std::int32_t rank, model::Range chunks);
  // `hook` is called for each chunk that a receiving rank gets or already has: on arrival by
  // collectives that allow immediate use, else by `use_all`.
  void use_with(Hook hook) { use_ = std::move(hook); }
  void use(std::int32_t rank, std::int32_t chunk);
  void use_all();

  // Marks these chunks as held by the rank since `ready` (-1: from the beginning).
  void give(std::int32_t rank, model::Range chunks, model::TaskIndex ready);

  // Returns an exchange of the same buffer among the ranks `member`, in that order, of which
  // `receiving` receive, with new ranges `chunks` along the same dimension. Its chunks take over
  // the state of the chunks that they cover, whose makers are called. Throws logic_error for a rank
  // that holds some of the covered chunks and not others.
  [[nodiscard]] Exchange among(const std::vector<std::int32_t>& member,
                               const std::vector<bool>& receiving,
                               std::vector<model::Range> chunks);
  // Copies back the state of such an exchange, which must cover each chunk here wholly or not at
  // all.
  void take(const Exchange& done, const std::vector<std::int32_t>& member);
  // Returns the number of adjacent columns or rows that must stay together (model::wire_block).
  [[nodiscard]] std::int32_t block() const {
    return cut_.axis == Cut::Axis::columns ? model::wire_block(graph_->wire()) : 1;
  }
  // Returns the chunk's range in the partitioned dimension.
  [[nodiscard]] model::Range extent(std::int32_t chunk) const {
    return cut_.chunks[static_cast<std::size_t>(chunk)];
  }

  // `to`'s chunks += `from`'s: a transfer to `to`'s receive slot 0 and an addition. A plain
  // transfer if `to`'s chunks hold nothing; nothing if `from`'s hold nothing. Throws logic_error
  // unless the chunks of one call all hold data or all hold none.
  void merge(std::int32_t from, std::int32_t to, model::Range chunks);
  // Enclose the merges of a step, which are lowered by `end_step`. Each sends what its rank holds
  // when the step begins, so two ranks may add the same chunks of each other. Additions are
  // appended after all transfers of the step if it has such a pair, and in an exchange made by
  // `among`: a rank delivers what the level before has copied to it where it sends that on, and
  // would wait there for additions appended earlier. Within a step, `merge` throws logic_error for
  // a chunk that is a target of the step already, and `copy` always does.
  void begin_step();
  void end_step();
  // `to`'s chunks = `from`'s: a transfer. Throws logic_error if `from`'s hold nothing.
  void copy(std::int32_t from, std::int32_t to, model::Range chunks);
  // The same for the parts of several ranks (ascending), in one message per run of adjacent chunks
  // whose state is equal on both ranks.
  void merge_parts(std::int32_t from, std::int32_t to, std::span<const std::int32_t> of);
  void copy_parts(std::int32_t from, std::int32_t to, std::span<const std::int32_t> of);
  // Sends `from`'s chunks to receive slot `slot` of `to`. Returns the transfer; -1 if they are
  // empty.
  model::TaskIndex deposit(std::int32_t from, std::int32_t to, model::Range chunks,
                           std::int16_t slot);
  // Passes on what arrived in `from`'s receive slot `held` by `after`.
  model::TaskIndex pass_on(std::int32_t from, std::int16_t held, std::int32_t to,
                           model::Range chunks, std::int16_t slot,
                           const std::vector<model::TaskIndex>& after);

  // Returns the tasks that made the chunks of a rank, ascending.
  [[nodiscard]] std::vector<model::TaskIndex> made_by(std::int32_t rank, model::Range chunks) const;
  // Returns whether the non-empty chunks hold data.
  [[nodiscard]] bool holds(std::int32_t rank, model::Range chunks) const;

 private:
  struct Chunk {
    bool held = false;
    bool made = true;
    bool used = false;
    // -1: from the beginning. Below: several tasks, joint_[-2 - ready].
    model::TaskIndex ready = -1;
    std::int32_t target_in = 0;  // the last step with a merge into it
  };

  struct Merge {
    std::int32_t from;
    std::int32_t to;
    model::Range chunks;
  };
  // What a merge does at its target once the transfer has arrived.
  struct Arrival {
    std::int32_t rank;
    model::Range chunks;
    bool is_added;  // else the transfer has overwritten the chunks
    std::vector<model::TaskIndex> after;
  };

  // Appends the transfer of a merge. None if `from` holds nothing.
  [[nodiscard]] std::optional<Arrival> arrival_of(const Merge& merge);
  void complete(const Arrival& arrival);
  [[nodiscard]] Chunk& chunk(std::int32_t rank, std::int32_t index);
  [[nodiscard]] const Chunk& chunk(std::int32_t rank, std::int32_t index) const;
  // The tasks that made a chunk.
  void add_makers(const Chunk& one, std::vector<model::TaskIndex>& tasks) const;
  void set_makers(Chunk& one, std::vector<model::TaskIndex> tasks);
  [[nodiscard]] model::TaskIndex last_maker(const Chunk& one) const;
  [[nodiscard]] model::TaskExtent extent(std::int32_t rank, model::Range chunks) const;
  model::TaskIndex send(std::int32_t from, std::int32_t to, model::Range chunks,
                        model::BufferRef output);
  model::TaskIndex send(std::int32_t from, model::BufferRef input, std::int32_t to,
                        model::Range chunks, model::BufferRef output,
                        const std::vector<model::TaskIndex>& after);
  [[nodiscard]] std::vector<model::Range> runs(std::int32_t from, std::int32_t to,
                                               std::span<const std::int32_t> of) const;

  model::TaskGraph* graph_;
  Sum sum_;
  std::vector<Participant> ranks_;
  Cut cut_;
  model::BufferRef buffer_;
  Hook make_;
  Hook use_;
  std::vector<Chunk> state_;  // [rank, chunk]
  std::vector<std::vector<model::TaskIndex>> joint_;
  bool is_level_ = false;  // made by `among`
  std::int32_t steps_ = 0;
  bool in_step_ = false;
  bool delays_ = false;        // the additions of this step
  std::vector<Merge> merges_;  // of this step
};

}  // namespace tandem::planner
