#include "planner/strategy/csps_levels.hpp"

#include <algorithm>
#include <utility>

#include "planner/strategy/rows.hpp"

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

// From the first that there is to the last.
template <class RangeOf>
Range joined(Range places, const RangeOf& range_of) {
  Range all{};
  for (std::int32_t i = places.begin; i < places.end; ++i) {
    const Range own = range_of(static_cast<std::size_t>(i));
    if (!own.empty()) all = {all.empty() ? own.begin : all.begin, own.end};
  }
  return all;
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

SparseLevel::SparseLevel(const Plan& plan, std::int32_t number, const std::vector<Range>& rows)
    : plan_(&plan), number_(number), rows_(&rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    group_.push_back(plan.sparse->group(number, i));
    nearer_.push_back(plan.sparse->group(number - 1, i));
    heads_.push_back(heads_of_group(plan, group_[i]));
  }
}

bool SparseLevel::attends() const {
  for (std::size_t i = 0; i < rows_->size(); ++i) {
    if (takes_part(i)) return true;
  }
  return false;
}

void SparseLevel::choose(std::int32_t layer, std::vector<Range> active) {
  active_ = std::move(active);
  parts_.clear();
  const auto group = static_cast<std::int32_t>(plan_->model.group());
  for (const Range heads : plan_->sparse->heads_alike(layer, number_, plan_->model.kv_heads)) {
    const double dropped = plan_->sparse->dropped(layer, number_, heads.begin);
    KeptPart part{.heads = {heads.begin * group, heads.end * group}, .lists = dropped > 0.0};
    std::int32_t begin = 0;
    for (const Range rows : *rows_) {
      const std::int32_t size = kept_rows(dropped, rows.size());
      part.kept.push_back({begin, begin + size});
      begin += size;
    }
    parts_.push_back(std::move(part));
  }
}

Range SparseLevel::asked_places(std::size_t place) const {
  const auto own = static_cast<std::int32_t>(place);
  return {group_[place].begin, plan_->sparse->overlap ? own + 1 : nearer_[place].begin};
}

Range SparseLevel::asking_places(std::size_t place) const {
  const auto own = static_cast<std::int32_t>(place);
  return {plan_->sparse->overlap ? own : nearer_[place].end, group_[place].end};
}

// Either every place has rows or the last alone, which then attends to all there is at level 1.
bool SparseLevel::asks(std::size_t place) const {
  return has_rows() && !asked_places(place).empty();
}
bool SparseLevel::is_asked(std::size_t place) const {
  return has_rows() && !asking_places(place).empty();
}
bool SparseLevel::takes_part(std::size_t place) const { return asks(place) || is_asked(place); }

Range SparseLevel::queries(const KeptPart& part, std::size_t place) const {
  if (!asks(place)) return {};
  return part.lists ? part.kept[place] : active_[place];
}

Range SparseLevel::keys(const KeptPart& part, std::size_t place) const {
  return is_asked(place) && !askers(part, place).empty() ? part.kept[place] : Range{};
}

Range SparseLevel::askers(const KeptPart& part, std::size_t place) const {
  return joined(asking_places(place), [&](std::size_t i) { return queries(part, i); });
}

Range SparseLevel::asked(const KeptPart& part, std::size_t place) const {
  return joined(asked_places(place), [&](std::size_t i) { return keys(part, i); });
}

Range SparseLevel::heads(const KeptPart& part, std::size_t place, std::size_t by) const {
  return heads_[place][by].intersect(part.heads);
}

std::vector<std::size_t> SparseLevel::attending(const KeptPart& part, std::size_t place) const {
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
