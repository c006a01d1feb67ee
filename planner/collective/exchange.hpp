#pragma once

// What every collective is written in: chunks of the devices' `partial`, copied and added.

#include <cstdint>
#include <vector>

#include "model/task_graph.hpp"

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

// The state of `partial` on all ranks while a collective is lowered: which chunk of the columns
// holds something, and since which task. Ranks are positions in `ranks`; rank 0 is the master.
// Columns are cut into `chunks` runs that differ by one column at most; some are empty where there
// are fewer columns than chunks, and nothing is sent for those.
class Exchange {
 public:
  // `graph` outlives this. Throws logic_error without ranks or chunks.
  Exchange(model::TaskGraph& graph, const Sum& sum, std::vector<Participant> ranks,
           std::int32_t chunks);

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(ranks_.size()); }
  [[nodiscard]] std::int32_t chunks() const { return chunks_; }
  [[nodiscard]] model::Range all() const { return {0, chunks_}; }
  // Whether the rank needs the result.
  [[nodiscard]] bool receives(std::int32_t rank) const;
  // Whether nobody but the master does.
  [[nodiscard]] bool master_alone() const;
  // Columns of consecutive chunks.
  [[nodiscard]] model::Range columns(model::Range chunks) const;

  // `to`'s chunks += `from`'s: a transfer to `to`'s receive slot 0 and an add; straight into its
  // `partial` if those chunks hold nothing yet; nothing at all if `from`'s do not. Chunks of one
  // call all hold something or all hold nothing, else logic_error.
  void merge(std::int32_t from, std::int32_t to, model::Range chunks);
  // `to`'s chunks = `from`'s: a transfer. Throws logic_error if those hold nothing.
  void copy(std::int32_t from, std::int32_t to, model::Range chunks);
  // `from`'s chunks to receive slot `slot` of `to`. Returns the transfer, or -1 for no columns.
  model::TaskIndex deposit(std::int32_t from, std::int32_t to, model::Range chunks,
                           std::int16_t slot);

  // The tasks that made the chunks of a rank, ascending.
  [[nodiscard]] std::vector<model::TaskIndex> made_by(std::int32_t rank, model::Range chunks) const;
  [[nodiscard]] bool holds(std::int32_t rank, model::Range chunks) const;

 private:
  struct Chunk {
    bool held = false;
    model::TaskIndex ready = -1;
  };

  [[nodiscard]] Chunk& chunk(std::int32_t rank, std::int32_t index);
  [[nodiscard]] const Chunk& chunk(std::int32_t rank, std::int32_t index) const;
  [[nodiscard]] model::Task task(model::TaskKind kind, std::int32_t rank,
                                 model::Range chunks) const;
  model::TaskIndex send(std::int32_t from, std::int32_t to, model::Range chunks,
                        model::BufferRef output);
  void set(std::int32_t rank, model::Range chunks, model::TaskIndex ready);

  model::TaskGraph* graph_;
  Sum sum_;
  std::vector<Participant> ranks_;
  std::int32_t chunks_;
  std::vector<Chunk> state_;  // [rank, chunk]
};

}  // namespace tandem::planner
