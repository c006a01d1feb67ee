#include <string>
#include <vector>

#include "planner/search/axes.hpp"
#include "planner/search/group_search.hpp"
#include "planner/search/rate_search.hpp"
#include "planner/search/share_candidates.hpp"

namespace tandem::planner {
namespace {

bool groups_open(const Draft& draft) { return !draft.request.groups.empty(); }

void walk_groups(const Draft& draft, Alternatives& all) {
  const Request& request = draft.request;
  const model::DeviceIndex master = master_of(request);
  if (!has_group(parse_groups(request.groups, request.cluster, master))) {
    all.offer("none", draft);
    return;
  }
  all.compare_by([&](const Plan& plan) {
    return by_rate(plan, request.objective) ? request_period(plan) : predicted_request_time(plan);
  });
  const std::string usual = request.group_strategy.empty() ? "star" : "ring,star";
  AllreduceChoice wanted =
      parse_allreduce_choice(request.allreduce.value_or("").empty() ? usual : *request.allreduce);
  Draft next{.request = request,
             .sums = {.allreduce = {.prompt = "star", .decode = "star"},
                      .layout = proximity(request.cluster, master)}};
  const std::vector<std::string> names = allreduce_candidates(outline_of(next));
  const auto offer = [&](const AllreduceChoice& choice) {
    next.sums.allreduce = choice;
    return all.offer(choice.prompt + "," + choice.decode, next);
  };
  bool is_chosen = false;
  for (std::string* const phase : {&wanted.decode, &wanted.prompt}) {
    if (*phase != kAutoAllreduce) continue;
    is_chosen = true;
    AllreduceChoice choice = wanted;
    for (std::string* const other : {&choice.decode, &choice.prompt}) {
      if (*other == kAutoAllreduce) *other = "star";
    }
    std::string chosen = names.front();
    for (const std::string& name : names) {
      (phase == &wanted.decode ? choice.decode : choice.prompt) = name;
      if (offer(choice)) chosen = name;
    }
    *phase = chosen;
  }
  if (!is_chosen) offer(wanted);
}

}  // namespace

const Axis& group_axis() {
  static constexpr Axis axis{
      .name = "all-reduce in groups", .applies = groups_open, .walk = walk_groups};
  return axis;
}

}  // namespace tandem::planner
