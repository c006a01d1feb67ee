#pragma once

// Who attends to what at each level of a prompt with sparse attention: rows, heads and places, of
// which csps_sparse.cpp makes tasks.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/plan.hpp"

namespace tandem::planner {

// Rows of a prompt that lie on each device, by place: in proportion to its FFN columns, or all of
// them on the last, the master, if that leaves a device without.
[[nodiscard]] std::vector<model::Range> sparse_rows(const Plan& plan, std::int32_t rows);

// What key/value heads that drop alike keep at a level, one after another.
struct KeptPart {
  model::Range heads{};              // of queries
  bool lists = false;                // whether rows are dropped
  std::vector<model::Range> kept{};  // by place: where it stands among what everybody kept
};

// A level beside the first, of all its groups. What is by place is of its rows.
class SparseLevel {
 public:
  // `plan`, which has sparse attention, and `rows`, by sparse_rows, must outlive it.
  SparseLevel(const Plan& plan, std::int32_t number, const std::vector<model::Range>& rows);

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

  // The part's heads with which `by` attends for the group of `place`.
  [[nodiscard]] model::Range heads(const KeptPart& part, std::size_t place, std::size_t by) const;
  // The places of the group that attend with some heads of the part, or of any: those that follow
  // in turn first, `place` itself last. If each sends in that order, nobody is sent to by all at
  // once.
  [[nodiscard]] std::vector<std::size_t> attending(const KeptPart& part, std::size_t place) const;

 private:
  [[nodiscard]] bool asks(std::size_t place) const;
  [[nodiscard]] bool is_asked(std::size_t place) const;
  [[nodiscard]] bool has_rows() const { return !rows_->front().empty(); }

  const Plan* plan_;
  std::int32_t number_;
  const std::vector<model::Range>* rows_;
  std::vector<model::Range> group_{};               // by place
  std::vector<model::Range> nearer_{};              // the group of the level before, by place
  std::vector<std::vector<model::Range>> heads_{};  // of the group of a place: by place
  std::vector<model::Range> active_{};              // of the layer
  std::vector<KeptPart> parts_{};                   // of the layer
};

}  // namespace tandem::planner
