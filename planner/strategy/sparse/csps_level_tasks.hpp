#pragma once

// A level of sparse attention in strategy csps: queries and keys between places, in pieces, and the
// tasks of a layer for them.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/graph/task_graph.hpp"
#include "planner/strategy/sparse/csps_levels.hpp"
#include "planner/strategy/sparse/sparse_level.hpp"

namespace tandem::planner {

// A level after the first and its tasks in the layer: by place, the last of each kind, or -1. Parts
// share slots, and rows of one part may overlap another's there, so a transfer from a slot waits
// for all of them.
struct LevelTasks {
  // The messages from one place to another; -1: none. A channel keeps their order.
  struct Arrived {
    model::TaskIndex keys = -1;              // brings its keys
    std::vector<model::TaskIndex> pieces{};  // bring its queries, by piece
    model::TaskIndex last = -1;              // the last of all
  };
  // Scores of `owner`'s keys of a part, computed at `by`.
  struct Weighed {
    std::size_t part;
    std::size_t owner;
    std::size_t by;
    model::TaskIndex made;
  };

  SparseLevel of;
  GroupHeads by;
  std::int32_t tiles = 1;  // pieces of a place's queries
  std::vector<model::TaskIndex> listed{};
  std::vector<model::TaskIndex> queried{};
  std::vector<model::TaskIndex> paired{};
  std::vector<std::vector<Arrived>> arrived{};    // by place and other place
  std::vector<model::TaskIndex> attended{};       // in the order of each_piece()
  std::vector<model::TaskIndex> last_attended{};  // by place
  std::vector<Weighed> weighed{};

  // Returns a place's queries in the pieces in which they travel and are attended.
  [[nodiscard]] std::vector<model::Range> pieces(const KeptPart& part, std::size_t place) const;
  // Returns the arrivals at `at` from all of `places`, which are of one group; with several parts,
  // from the whole group.
  [[nodiscard]] std::vector<model::TaskIndex> arrivals(model::Range places, std::size_t at) const;
  // Returns what attention at `at` for a piece of `asker`'s queries waits for: that piece, all
  // keys.
  [[nodiscard]] std::vector<model::TaskIndex> arrivals(std::size_t asker, std::size_t piece,
                                                       std::size_t at) const;

  // Calls visit(part, place, rows, piece) for each piece of each place's queries, in the order of
  // rows within a part. Visiting the first pieces of all places first took up to a tenth longer, as
  // every place's last piece then arrives late.
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
