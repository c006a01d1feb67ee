#include <string>
#include <string_view>

#include "planner/search/axes.hpp"
#include "planner/search/group_search.hpp"
#include "planner/search/objective.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

bool stages_open(const Draft& draft) {
  const Request& request = draft.request;
  return request.open_axes.stages && request.groups.empty() &&
         find_strategy(request.strategy).sharding.splits_layers();
}

void walk_stages(const Draft& draft, Alternatives& all) {
  Draft next = draft;
  next.request.open_axes.stages = false;
  const Request& request = next.request;
  all.compare_by(
      [&](const Plan& plan) { return predicted_time(plan, request.objective, request.evaluate); });
  all.offer("one device each", next);
  // Rounds of groups are not searched.
  if (request.rounds.value_or(1) > 1 || !has_near_groups(request.cluster, master_of(request)))
    return;
  Draft grouped = next;
  grouped.request.rounds = 1;
  grouped.request.groups = "auto";
  grouped.request.allreduce = kAutoAllreduce;
  for (const std::string_view prompts : {std::string_view(), kGalaxyGroups}) {
    grouped.request.group_strategy = prompts;
    all.offer(prompts.empty() ? "near devices" : "near devices as " + std::string(prompts),
              grouped);
  }
}

}  // namespace

const Axis& stages_axis() {
  static constexpr Axis axis{.name = "stages", .applies = stages_open, .walk = walk_stages};
  return axis;
}

}  // namespace tandem::planner
