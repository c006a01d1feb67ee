#pragma once

// Who attends to what at a level of a prompt with sparse attention
// (planner/plan/sparse_attention.hpp): rows and places, of which strategies make tasks.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/plan/plan.hpp"

namespace tandem::planner {

// What key/value heads that drop alike keep at a level, one place after another.
struct KeptPart {
  model::Range heads{};              // of queries
  bool lists = false;                // whether rows are dropped
  std::vector<model::Range> kept{};  // by place: where it stands among what everybody kept
};

// A level beside the first, of all its groups. What is by place is of its rows. What one place has
// alone is one level: nobody asks there.
class SparseLevel {
 public:
  // `rows`: the prompt's, by place, one after another. `plan`, which has sparse attention, must
  // outlive it.
  SparseLevel(const Plan& plan, std::int32_t number, std::vector<model::Range> rows);

  // Whether any place attends to anything here.
  [[nodiscard]] bool attends() const;
  [[nodiscard]] std::int32_t number() const { return number_; }
  // Where the level's rows are gathered; level 1 reads what tasks have in any strategy.
  [[nodiscard]] std::int16_t slot() const { return static_cast<std::int16_t>(number_ - 1); }
  // The list by which rows of a part were gathered, as a task has it: 0 for none.
  [[nodiscard]] std::int8_t list(const KeptPart& part) const {
    return static_cast<std::int8_t>(part.lists ? slot() : 0);
  }

  // What `layer` keeps, of which `active` rows go on after attention.
  void choose(std::int32_t layer, std::vector<model::Range> active);
  [[nodiscard]] const std::vector<KeptPart>& parts() const { return parts_; }

  [[nodiscard]] model::Range group(std::size_t place) const { return group_[place]; }
  // Places whose rows those of `place` attend to, and places whose rows attend to those of `place`:
  // without overlap not those of its group at the level before.
  [[nodiscard]] model::Range asked_places(std::size_t place) const;
  [[nodiscard]] model::Range asking_places(std::size_t place) const;
  // Whether a place has, of all its rows, any part in attention here.
  [[nodiscard]] bool takes_part(std::size_t place) const;

  // Rows of what was gathered: what `place` asks with, and what it has that others ask for; what
  // all those ask with who ask for keys of `place`, and what all those have whom it asks.
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
