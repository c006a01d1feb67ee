#pragma once

// The queries and keys of a level of a prompt's sparse attention
// (planner/plan/sparse_attention.hpp), by rows and places. Strategies turn them into tasks.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

// What key/value heads with equal ratios keep at a level, place by place.
struct KeptPart {
  model::Range heads{};              // of queries
  bool lists = false;                // whether rows are dropped
  std::vector<model::Range> kept{};  // by place: its range among the rows that all places kept
};

// A level after the first, with all its groups. Data by place concerns its rows. If only one place
// has rows, there is one level, without queries.
class SparseLevel {
 public:
  // `rows`: the prompt's, by place, one after another. `plan`, which has sparse attention, must
  // outlive it.
  SparseLevel(const Plan& plan, std::int32_t number, std::vector<model::Range> rows);

  // Returns whether any place attends to anything at this level.
  [[nodiscard]] bool attends() const;
  [[nodiscard]] std::int32_t number() const { return number_; }
  // Returns the slot of the level's gathered rows; level 1 uses the buffers of every strategy.
  [[nodiscard]] std::int16_t slot() const { return static_cast<std::int16_t>(number_ - 1); }
  // Returns the list by which rows of a part were gathered, in the notation of tasks: 0 for none.
  [[nodiscard]] std::int8_t list(const KeptPart& part) const {
    return static_cast<std::int8_t>(part.lists ? slot() : 0);
  }

  // Selects what `layer` keeps; `active` rows go on after attention.
  void choose(std::int32_t layer, std::vector<model::Range> active);
  [[nodiscard]] const std::vector<KeptPart>& parts() const { return parts_; }

  [[nodiscard]] model::Range group(std::size_t place) const { return group_[place]; }
  // Return the places that the rows of `place` attend to, and the places whose rows attend to those
  // of `place`; without overlap excluding its group at the level before.
  [[nodiscard]] model::Range asked_places(std::size_t place) const;
  [[nodiscard]] model::Range asking_places(std::size_t place) const;
  // Returns whether any row of a place takes part in attention at this level.
  [[nodiscard]] bool takes_part(std::size_t place) const;

  // Ranges of gathered rows: the queries of `place` and its keys that others attend to; the queries
  // of all places that attend to `place`, and the keys of all places that it attends to.
  [[nodiscard]] model::Range queries(const KeptPart& part, std::size_t place) const;
  [[nodiscard]] model::Range keys(const KeptPart& part, std::size_t place) const;
  [[nodiscard]] model::Range askers(const KeptPart& part, std::size_t place) const;
  [[nodiscard]] model::Range asked(const KeptPart& part, std::size_t place) const;

 private:
  [[nodiscard]] bool asks(std::size_t place) const;
  [[nodiscard]] bool is_asked(std::size_t place) const;

  const Plan* plan_;
  std::int32_t number_;
  std::vector<model::Range> rows_;  // by place, as what follows
  bool shared_;                     // whether several places have rows
  std::vector<model::Range> group_{};
  std::vector<model::Range> nearer_{};  // the group of the level before
  std::vector<model::Range> active_{};  // of the layer
  std::vector<KeptPart> parts_{};       // of the layer
};

}  // namespace tandem::planner
