#pragma once

// A level of a prompt in strategy csps: who asks whom, in which pieces, and the tasks of a layer
// that do it.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "planner/strategy/sparse/csps_levels.hpp"
#include "planner/strategy/sparse/sparse_level.hpp"

namespace tandem::planner {

// A level beside the first, and its tasks in the layer; by place, the last of each kind there, or
// -1. Its parts share slots, rows of one part lie where another part has others: what sends from
// a slot waits for all of them.
struct LevelTasks {
  // The messages of one place to another; -1: none. What a channel takes arrives in order.
  struct Arrived {
    model::TaskIndex keys = -1;              // after which its keys are there
    std::vector<model::TaskIndex> pieces{};  // after which so many pieces of what it asks with are
    model::TaskIndex last = -1;              // after which all are
  };
  // Scores of the keys of `owner`, of a part, made at `by`.
  struct Weighed {
    std::size_t part;
    std::size_t owner;
    std::size_t by;
    model::TaskIndex made;
  };

  SparseLevel of;
  GroupHeads by;
  std::int32_t tiles = 1;  // pieces of what a place asks with
  std::vector<model::TaskIndex> listed{};
  std::vector<model::TaskIndex> queried{};
  std::vector<model::TaskIndex> paired{};
  std::vector<std::vector<Arrived>> arrived{};    // by place and other place
  std::vector<model::TaskIndex> attended{};       // in the order of each_piece()
  std::vector<model::TaskIndex> last_attended{};  // by place
  std::vector<Weighed> weighed{};

  // What a place asks with, in the pieces in which it travels and is attended.
  [[nodiscard]] std::vector<model::Range> pieces(const KeptPart& part, std::size_t place) const;
  // What has arrived at `at` from all of `places`, which are of one group; where there are several
  // parts, from all of it.
  [[nodiscard]] std::vector<model::TaskIndex> arrivals(model::Range places, std::size_t at) const;
  // What attention of a piece of what `asker` asks with needs at `at`: that, and all keys.
  [[nodiscard]] std::vector<model::TaskIndex> arrivals(std::size_t asker, std::size_t piece,
                                                       std::size_t at) const;

  // Calls visit(part, place, rows, piece) for each piece of what places ask with, of each part in
  // the order of rows: the first of everybody first took up to a tenth longer, as the last piece of
  // all then comes late to each.
  template <class Visit>
  void each_piece(Visit visit) const {
    for (const KeptPart& part : of.parts()) {
      for (std::size_t i = 0; i < part.kept.size(); ++i) {
        std::size_t piece = 0;
        for (const model::Range rows : pieces(part, i)) visit(part, i, rows, piece++);
      }
    }
  }
};

}  // namespace tandem::planner
