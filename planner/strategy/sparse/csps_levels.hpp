#pragma once

// Which rows of a prompt with sparse attention lie on which device in strategy csps, and with which
// heads devices attend for one another at a level (strategy/sparse/sparse_level.hpp).

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/strategy/sparse/sparse_level.hpp"

namespace tandem::planner {

// Rows of a prompt that lie on each device, by place: in proportion to its FFN columns, or all of
// them on the last, the master, if that leaves a device without.
[[nodiscard]] std::vector<model::Range> sparse_rows(const Plan& plan, std::int32_t rows);

// Who attends at a level for a place: the devices of its group, each with a part of the heads.
class GroupHeads {
 public:
  // `number` is that of the level.
  GroupHeads(const Plan& plan, std::int32_t number);

  // The part's heads with which `by` attends for the group of `place`.
  [[nodiscard]] model::Range heads(const KeptPart& part, std::size_t place, std::size_t by) const;
  // The places of the group that attend with some heads of the part: those that follow in turn
  // first, `place` itself last. If each sends in that order, nobody is sent to by all at once.
  [[nodiscard]] std::vector<std::size_t> attending(const KeptPart& part, std::size_t place) const;

 private:
  std::vector<model::Range> group_{};               // by place
  std::vector<std::vector<model::Range>> heads_{};  // of the group of a place: by place
};

}  // namespace tandem::planner
