#pragma once

// What every collective is written in: parts of the devices' `partial`, copied and added.

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

// The state of `partial` on all ranks while a collective is lowered: which part of the columns
// holds something, and since which task. Ranks are positions in `ranks`; rank 0 is the master.
// Columns are cut into `parts` runs that differ by one column at most; some are empty where there
// are fewer columns than parts, and nothing is sent for those.
class Exchange {
 public:
  // `graph` outlives this. Throws logic_error without ranks or parts.
  Exchange(model::TaskGraph& graph, const Sum& sum, std::vector<Participant> ranks,
           std::int32_t parts);

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(ranks_.size()); }
  [[nodiscard]] std::int32_t parts() const { return parts_; }
  [[nodiscard]] model::Range all() const { return {0, parts_}; }
  // Whether the rank needs the result.
  [[nodiscard]] bool receives(std::int32_t rank) const;
  // Whether nobody but the master does.
  [[nodiscard]] bool master_alone() const;
  // Columns of consecutive parts.
  [[nodiscard]] model::Range columns(model::Range parts) const;

  // `to`'s parts += `from`'s: a transfer to `to`'s receive slot 0 and an add; straight into its
  // `partial` if those parts hold nothing yet; nothing at all if `from`'s do not. Parts of one call
  // all hold something or all hold nothing, else logic_error.
  void merge(std::int32_t from, std::int32_t to, model::Range parts);
  // `to`'s parts = `from`'s: a transfer. Throws logic_error if those hold nothing.
  void copy(std::int32_t from, std::int32_t to, model::Range parts);
  // `from`'s parts to receive slot `slot` of `to`. Returns the transfer, or -1 for no columns.
  model::TaskIndex deposit(std::int32_t from, std::int32_t to, model::Range parts,
                           std::int16_t slot);

  // The tasks that made the parts of a rank, ascending.
  [[nodiscard]] std::vector<model::TaskIndex> made_by(std::int32_t rank, model::Range parts) const;
  [[nodiscard]] bool holds(std::int32_t rank, model::Range parts) const;

 private:
  struct Part {
    bool held = false;
    model::TaskIndex ready = -1;
  };

  [[nodiscard]] Part& part(std::int32_t rank, std::int32_t index);
  [[nodiscard]] const Part& part(std::int32_t rank, std::int32_t index) const;
  [[nodiscard]] model::Task task(model::TaskKind kind, std::int32_t rank, model::Range parts) const;
  model::TaskIndex send(std::int32_t from, std::int32_t to, model::Range parts,
                        model::BufferRef output);
  void set(std::int32_t rank, model::Range parts, model::TaskIndex ready);

  model::TaskGraph* graph_;
  Sum sum_;
  std::vector<Participant> ranks_;
  std::int32_t parts_;
  std::vector<Part> state_;  // [rank, part]
};

}  // namespace tandem::planner
