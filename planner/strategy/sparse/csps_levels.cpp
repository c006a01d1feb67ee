#include "planner/strategy/sparse/csps_levels.hpp"

#include <algorithm>

#include "planner/strategy/common/rows.hpp"

namespace tandem::planner {
namespace {

using model::Range;

const model::Share& share_at(const Plan& plan, std::size_t place) {
  return plan.devices[static_cast<std::size_t>(plan.sparse->order[place])].share;
}

// Heads that each device of a group attends with, by place; of the others none.
std::vector<Range> heads_of_group(const Plan& plan, Range group) {
  std::vector<std::int64_t> weights;
  for (std::int32_t i = group.begin; i < group.end; ++i)
    weights.push_back(share_at(plan, static_cast<std::size_t>(i)).computed_heads().size());
  std::vector<Range> heads(plan.sparse->order.size());
  std::int32_t begin = 0;
  const std::vector<std::int32_t> sizes =
      parts_by_weight(static_cast<std::int32_t>(plan.model.heads), weights);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    heads[static_cast<std::size_t>(group.begin) + i] = {begin, begin + sizes[i]};
    begin += sizes[i];
  }
  return heads;
}

}  // namespace

std::vector<Range> sparse_rows(const Plan& plan, std::int32_t rows) {
  const std::size_t places = plan.sparse->order.size();
  std::vector<std::int64_t> weights;
  for (std::size_t i = 0; i < places; ++i)
    weights.push_back(share_at(plan, i).computed_columns().size());
  std::vector<std::int32_t> sizes = parts_by_weight(rows, weights);
  if (std::ranges::find(sizes, 0) != sizes.end()) {
    sizes.assign(places, 0);
    sizes.back() = rows;
  }
  std::vector<Range> parts;
  std::int32_t begin = 0;
  for (const std::int32_t size : sizes) {
    parts.push_back({begin, begin + size});
    begin += size;
  }
  return parts;
}

GroupHeads::GroupHeads(const Plan& plan, std::int32_t number) {
  for (std::size_t i = 0; i < plan.sparse->order.size(); ++i) {
    group_.push_back(plan.sparse->group(number, i));
    heads_.push_back(heads_of_group(plan, group_[i]));
  }
}

Range GroupHeads::heads(const KeptPart& part, std::size_t place, std::size_t by) const {
  return heads_[place][by].intersect(part.heads);
}

std::vector<std::size_t> GroupHeads::attending(const KeptPart& part, std::size_t place) const {
  const Range group = group_[place];
  std::vector<std::size_t> found;
  for (std::int32_t step = 1; step <= group.size(); ++step) {
    const std::int32_t turn = static_cast<std::int32_t>(place) - group.begin + step;
    const std::int32_t next = group.begin + turn % group.size();
    const auto other = static_cast<std::size_t>(next);
    if (!heads(part, place, other).empty()) found.push_back(other);
  }
  return found;
}

}  // namespace tandem::planner
