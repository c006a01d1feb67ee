#include "planner/strategy/sparse/sparse_level.hpp"

#include <algorithm>
#include <utility>

namespace tandem::planner {
namespace {

using model::Range;

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

SparseLevel::SparseLevel(const Plan& plan, std::int32_t number, std::vector<Range> rows)
    : plan_(&plan),
      number_(number),
      rows_(std::move(rows)),
      shared_(std::ranges::count_if(rows_, [](Range own) { return !own.empty(); }) > 1) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    group_.push_back(plan.sparse->group(number, i));
    nearer_.push_back(plan.sparse->group(number - 1, i));
  }
}

bool SparseLevel::attends() const {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (takes_part(i)) return true;
  }
  return false;
}

void SparseLevel::choose(std::int32_t layer, std::vector<Range> active) {
  active_ = std::move(active);
  parts_.clear();
  const auto group = static_cast<std::int32_t>(plan_->model.group());
  for (const Range heads : plan_->sparse->head_runs(layer, number_, plan_->model.kv_heads)) {
    const double dropped = plan_->sparse->dropped(layer, number_, heads.begin);
    KeptPart part{.heads = {heads.begin * group, heads.end * group}, .lists = dropped > 0.0};
    std::int32_t begin = 0;
    for (const Range rows : rows_) {
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

bool SparseLevel::asks(std::size_t place) const {
  return shared_ && !rows_[place].empty() && !asked_places(place).empty();
}
bool SparseLevel::is_asked(std::size_t place) const {
  return shared_ && !rows_[place].empty() && !asking_places(place).empty();
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

}  // namespace tandem::planner
