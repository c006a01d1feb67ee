#include "planner/strategy/common/graph_cache.hpp"

#include <algorithm>

#include "model/graph/announcement.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {

GraphCache::Structure GraphCache::structure_of(const model::Batch& batch) {
  Structure structure;
  structure.reserve(batch.segments.size());
  for (std::size_t i = 0; i < batch.segments.size(); ++i) {
    const model::Segment& segment = batch.segments[i];
    const model::Place place = batch.places.empty() ? model::Place{.owner = -1} : batch.places[i];
    structure.push_back({segment.rows, segment.sampled, place.owner, place.partitioned});
  }
  return structure;
}

const model::TaskGraph& GraphCache::graph_of(const model::Batch& batch) {
  check_serves_many(*plan_);
  Structure structure = structure_of(batch);
  const auto known = std::ranges::find_if(graphs_, [&](const auto& entry) {
    return entry.first == structure && (!model::announces(entry.second) ||
                                        entry.second.batch().cache.size() == batch.cache.size());
  });
  if (known != graphs_.end()) {
    graphs_.splice(graphs_.begin(), graphs_, known);
    graphs_.front().second.advance(batch);
  } else {
    if (graphs_.size() == kMost) {
      if (forget_) forget_(graphs_.back().second);
      graphs_.pop_back();
    }
    graphs_.emplace_front(std::move(structure),
                          find_strategy(plan_->strategy).lower(*plan_, batch));
  }
  return graphs_.front().second;
}

}  // namespace tandem::planner
