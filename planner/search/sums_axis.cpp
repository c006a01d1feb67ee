#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "planner/partition/galaxy_partition.hpp"
#include "planner/partition/proportions.hpp"
#include "planner/search/axes.hpp"
#include "planner/search/share_candidates.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

bool sums_open(const Draft& draft) {
  return find_strategy(draft.request.strategy).sharding.has_collective();
}

// Returns a plan with about the shares that will be found, to choose sums for.
Plan likely_plan(Draft draft, const AllreduceChoice& wanted) {
  draft.sums = {.allreduce = wanted, .layout = {}};
  Plan plan = outline_of(draft);
  const auto give = [&](const Shares& shares) {
    for (const model::Share& share : shares) plan.devices.push_back({.share = share, .memory = {}});
  };
  if (sharding_of(plan).replicates()) {
    give(uniform_shares(plan, find_strategy(plan.strategy)));
    return plan;
  }
  const bool by_speed = is_searched(plan.partition);
  give(to_shares(
      plan.model, plan.master,
      proportional_split(plan.model, by_speed ? capacities(plan) : given_proportions(plan))));
  return plan;
}

std::string label_of(const Sums& sums) {
  const AllreduceChoice& choice = sums.allreduce;
  return choice.prompt == choice.decode ? choice.prompt : choice.prompt + "," + choice.decode;
}

void walk_sums(const Draft& draft, Alternatives& all) {
  const Request& request = draft.request;
  const AllreduceChoice wanted =
      parse_allreduce_choice(request.allreduce.value_or(find_strategy(request.strategy).allreduce));
  std::vector<Sums> tried;
  const auto offer = [&](const Sums& sums) {
    if (std::ranges::find(tried, sums) != tried.end()) return;
    tried.push_back(sums);
    all.offer(label_of(sums), Draft{.request = request, .sums = sums});
  };
  if (wanted.prompt != kAutoAllreduce && wanted.decode != kAutoAllreduce) {
    offer(fastest_sums(likely_plan(draft, wanted), wanted, request.evaluate));
    return;
  }
  all.compare_by([&](const Plan& plan) { return trial_request_time(plan, request.evaluate); });
  const Proximity layout = first_layout(
      outline_of({.request = request, .sums = {.allreduce = wanted, .layout = {}}}), wanted);
  const auto with = [&](const std::string& candidate) {
    AllreduceChoice choice = wanted;
    for (std::string* const phase : {&choice.prompt, &choice.decode}) {
      if (*phase == kAutoAllreduce) *phase = candidate;
    }
    return Sums{.allreduce = choice, .layout = layout};
  };
  const std::vector<std::string> candidates =
      allreduce_candidates(outline_of({.request = request, .sums = with("star")}));
  for (std::size_t i = 0; i < candidates.size() && all.best() == nullptr; ++i)
    offer(with(candidates[i]));
  if (all.best() == nullptr) return;
  const Plan first = *all.best();
  for (const bool likely : {true, false}) {
    if (all.ended()) return;
    offer(fastest_sums(likely ? likely_plan(draft, wanted) : first, wanted, request.evaluate));
  }
}

}  // namespace

const Axis& sums_axis() {
  static constexpr Axis axis{.name = "all-reduce", .applies = sums_open, .walk = walk_sums};
  return axis;
}

}  // namespace tandem::planner
