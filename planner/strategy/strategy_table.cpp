#include "model/base/error.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/csps.hpp"
#include "planner/strategy/galaxy.hpp"
#include "planner/strategy/local.hpp"
#include "planner/strategy/pipeline.hpp"
#include "planner/strategy/sp.hpp"
#include "planner/strategy/spread.hpp"
#include "planner/strategy/tensor.hpp"

// The table of strategies: the one place that knows all of them.

namespace tandem::planner {

const std::vector<Strategy>& strategies() {
  static const std::vector<Strategy> table{
      local_strategy(), tensor_strategy(), pipeline_strategy(), galaxy_strategy(),
      sp_strategy(),    csps_strategy(),   spread_strategy()};
  return table;
}

std::string strategies_that(bool (*holds)(const Strategy&)) {
  std::string names;
  for (const Strategy& strategy : strategies()) {
    if (holds(strategy)) names += (names.empty() ? "'" : " or '") + strategy.name + "'";
  }
  return names;
}

const Strategy& find_strategy(const std::string& name) {
  std::string known;
  for (const Strategy& strategy : strategies()) {
    if (strategy.name == name) return strategy;
    known += (known.empty() ? "" : ", ") + strategy.name;
  }
  throw Error("strategy '" + name + "': unknown, expected one of " + known);
}

}  // namespace tandem::planner
