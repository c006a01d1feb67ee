#pragma once

// What every collective is written in: chunks of a buffer of several devices, copied and added.

#include <cstdint>
#include <functional>
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
  // Out: the tasks that together made the sum in its `partial`; empty if it does not get it.
  std::vector<model::TaskIndex> sum{};
};

struct Sum {
  model::DeviceIndex master = 0;  // always gets the sum
  std::int32_t layer = -1;        // copied to the tasks
  model::Range rows;              // of the batch
  model::Range columns;           // of `partial`
};

// How what is exchanged is cut into chunks: by columns, or by rows, of any sizes. Chunk i has the
// range chunks[i] of that dimension, and all of the other.
struct Cut {
  enum class Axis : std::uint8_t { columns, rows };
  Axis axis = Axis::columns;
  std::vector<model::Range> chunks{};
};
// Runs that differ by one column at most, or by one block of `block` columns, at multiples of which
// they begin.
[[nodiscard]] Cut equal_columns(model::Range columns, std::int32_t chunks, std::int32_t block = 1);

// The state of one buffer on all ranks while a collective is lowered: which chunk holds something,
// and since which task. Ranks are positions in `ranks`; rank 0 is a sum's master. Some chunks may
// be empty, and nothing is sent for those.
//
// A chunk need not be made when the exchange begins: `make_with` names who makes it when it is
// first used; and `use_with` who uses it where it has come to. So a product can be computed by
// tiles between the messages that bring or take them.
class Exchange {
 public:
  using Hook = std::function<model::TaskIndex(std::int32_t rank, std::int32_t chunk)>;

  // A sum of `partial`, whose columns are cut into `chunks`. `graph` outlives this. Throws
  // logic_error without ranks or chunks.
  Exchange(model::TaskGraph& graph, const Sum& sum, std::vector<Participant> ranks,
           std::int32_t chunks);
  // Of any buffer, cut in any way. The master gets what it receives, like the others.
  Exchange(model::TaskGraph& graph, const Sum& sum, std::vector<Participant> ranks, Cut cut,
           model::BufferRef buffer);

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(ranks_.size()); }
  [[nodiscard]] std::int32_t chunks() const {
    return static_cast<std::int32_t>(cut_.chunks.size());
  }
  [[nodiscard]] model::Range all() const { return {0, chunks()}; }
  // The chunks that belong to a rank where they are shared out evenly: as many to each, in order.
  [[nodiscard]] model::Range part(std::int32_t rank) const;
  // Whether the rank needs the result.
  [[nodiscard]] bool receives(std::int32_t rank) const;
  // Whether nobody but the master does.
  [[nodiscard]] bool master_alone() const;
  // Rows and columns of consecutive chunks. Throws logic_error unless they are adjacent.
  [[nodiscard]] model::Area area(model::Range chunks) const;
  [[nodiscard]] model::Range columns(model::Range chunks) const { return area(chunks).columns; }
  [[nodiscard]] bool empty(model::Range chunks) const;

  // `hook` returns the task that makes a chunk of a rank that contributes, which is called when the
  // chunk is first needed and no later than `make`; -1 if nobody does. Without it, chunks are
  // ready with their participant.
  void make_with(Hook hook);
  void make(std::int32_t rank, model::Range chunks);
  // `hook` is called for a chunk that has come to a rank that receives, or that it has, by the
  // collectives that let it be used at once; by `use_all` for all others.
  void use_with(Hook hook) { use_ = std::move(hook); }
  void use(std::int32_t rank, std::int32_t chunk);
  void use_all();

  // Says that the rank has these chunks since `ready` (-1: from the beginning).
  void give(std::int32_t rank, model::Range chunks, model::TaskIndex ready);

  // The same buffer of some of the ranks, in that order, cut anew along the same dimension:
  // `member` are the ranks, of which `receiving` receive, `chunks` the ranges. What chunks hold is
  // taken from the chunks here that they cover, whose own makers are called. A rank that holds some
  // of those and not others is a logic_error.
  [[nodiscard]] Exchange among(const std::vector<std::int32_t>& member,
                               const std::vector<bool>& receiving,
                               std::vector<model::Range> chunks);
  // Takes back what such an exchange has done. It covers each chunk here as a whole, or not at all.
  void take(const Exchange& done, const std::vector<std::int32_t>& member);
  // So many adjacent columns or rows are not to be cut (model::wire_block).
  [[nodiscard]] std::int32_t block() const {
    return cut_.axis == Cut::Axis::columns ? model::wire_block(graph_->wire()) : 1;
  }
  // Of the dimension that is cut.
  [[nodiscard]] model::Range extent(std::int32_t chunk) const {
    return cut_.chunks[static_cast<std::size_t>(chunk)];
  }

  // `to`'s chunks += `from`'s: a transfer to `to`'s receive slot 0 and an add; straight into its
  // buffer if those chunks hold nothing yet; nothing at all if `from`'s do not. Chunks of one
  // call all hold something or all hold nothing, else logic_error.
  void merge(std::int32_t from, std::int32_t to, model::Range chunks);
  // Around the merges of a step, which depend on none of its additions. Those of an exchange
  // `among` others are told at its end: what the level before has copied to a rank is delivered
  // where the rank sends it on, and would wait there for additions that are told before.
  void begin_step() { by_steps_ = is_level_; }
  void end_step();
  // `to`'s chunks = `from`'s: a transfer. Throws logic_error if those hold nothing.
  void copy(std::int32_t from, std::int32_t to, model::Range chunks);
  // The same of the parts of several ranks (ascending), in as few messages as there are runs of
  // adjacent chunks that both ranks hold, or not, alike.
  void merge_parts(std::int32_t from, std::int32_t to, std::span<const std::int32_t> of);
  void copy_parts(std::int32_t from, std::int32_t to, std::span<const std::int32_t> of);
  // `from`'s chunks to receive slot `slot` of `to`. Returns the transfer, or -1 if they are empty.
  model::TaskIndex deposit(std::int32_t from, std::int32_t to, model::Range chunks,
                           std::int16_t slot);
  // The same of what came to `from`'s receive slot `held`, by `after`: it is passed on.
  model::TaskIndex pass_on(std::int32_t from, std::int16_t held, std::int32_t to,
                           model::Range chunks, std::int16_t slot,
                           const std::vector<model::TaskIndex>& after);

  // The tasks that made the chunks of a rank, ascending.
  [[nodiscard]] std::vector<model::TaskIndex> made_by(std::int32_t rank, model::Range chunks) const;
  // Of those that are not empty, if there are any.
  [[nodiscard]] bool holds(std::int32_t rank, model::Range chunks) const;

 private:
  struct Chunk {
    bool held = false;
    bool made = true;
    bool used = false;
    // -1: from the beginning. Below: several tasks, joint_[-2 - ready].
    model::TaskIndex ready = -1;
  };

  struct Addition {
    std::int32_t rank;
    model::Range chunks;
    std::vector<model::TaskIndex> dependencies;
  };

  void add(const Addition& addition);
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
  bool by_steps_ = false;
  std::vector<Addition> additions_;  // of this step
};

}  // namespace tandem::planner
