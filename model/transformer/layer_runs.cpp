#include "model/transformer/layer_runs.hpp"

#include <algorithm>

#include "model/base/error.hpp"

namespace tandem::model {

LayerRuns::LayerRuns(const std::vector<Range>& runs) {
  for (const Range run : runs) {
    if (run.empty()) continue;
    if (first_.empty()) {
      first_ = run;
      continue;
    }
    Range& last = more_.empty() ? first_ : more_.back();
    require(last.end <= run.begin, "layer runs: ascending, each layer once");
    if (last.end == run.begin) {
      last.end = run.end;
    } else {
      more_.push_back(run);
    }
  }
}

std::int32_t LayerRuns::size() const {
  std::int32_t size = first_.size();
  for (const Range run : more_) size += run.size();
  return size;
}

bool LayerRuns::contains(std::int32_t layer) const {
  return first_.contains(layer) ||
         std::ranges::any_of(more_, [layer](Range run) { return run.contains(layer); });
}

std::int32_t LayerRuns::place(std::int32_t layer) const {
  std::int32_t before = 0;
  for (std::size_t i = 0; i < run_count(); ++i) {
    if (run(i).contains(layer)) return before + layer - run(i).begin;
    before += run(i).size();
  }
  require(false, "layer runs: the place of a layer that there is");
  return -1;
}

}  // namespace tandem::model
