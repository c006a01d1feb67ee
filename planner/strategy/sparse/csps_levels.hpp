#pragma once

// The rows of a prompt with sparse attention by device in strategy csps, and the heads with which
// devices attend for one another at a level (strategy/sparse/sparse_level.hpp).

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/strategy/sparse/sparse_level.hpp"

namespace tandem::planner {

// Returns the prompt's rows by place: in proportion to the device's FFN columns, or all of them on
// the last place, the master, if a device would get none.
[[nodiscard]] std::vector<model::Range> sparse_rows(const Plan& plan, std::int32_t rows);

// The devices that attend for a place at a level: those of its group, each with a part of the
// heads.
class GroupHeads {
 public:
  // `number` is that of the level.
  GroupHeads(const Plan& plan, std::int32_t number);

  // Returns the part's heads with which `by` attends for the group of `place`.
  [[nodiscard]] model::Range heads(const KeptPart& part, std::size_t place, std::size_t by) const;
  // Returns the places of the group that attend with some heads of the part, in cyclic order after
  // `place`, itself last. If each sends in that order, no place receives from all at once.
  [[nodiscard]] std::vector<std::size_t> attending(const KeptPart& part, std::size_t place) const;

 private:
  std::vector<model::Range> group_{};               // by place
  std::vector<std::vector<model::Range>> heads_{};  // of the group of a place: by place
};

}  // namespace tandem::planner
