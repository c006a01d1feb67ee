#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/search/axes.hpp"
#include "planner/search/equal_devices.hpp"
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

// Returns `groups` with two of them joined, in every possible way.
std::vector<Groups> pairs_joined(const Groups& groups) {
  std::vector<Groups> all;
  for (std::size_t a = 0; a < groups.size(); ++a) {
    for (std::size_t b = a + 1; b < groups.size(); ++b) {
      Groups next = groups;
      next[a].insert(next[a].end(), next[b].begin(), next[b].end());
      std::ranges::sort(next[a]);
      next.erase(next.begin() + static_cast<std::ptrdiff_t>(b));
      all.push_back(std::move(next));
    }
  }
  return all;
}

// What tells groups apart: the first equals of their members, in the order of devices, which
// decides who has remainders.
Groups kinds_of(const Groups& groups, const std::vector<model::DeviceIndex>& first) {
  Groups kinds = groups;
  for (std::vector<model::DeviceIndex>& group : kinds) {
    for (model::DeviceIndex& member : group) member = first[static_cast<std::size_t>(member)];
  }
  std::ranges::sort(kinds);
  return kinds;
}

// As first_equals(); the master is equal to none.
std::vector<model::DeviceIndex> equals_of(const Request& request) {
  std::vector<model::DeviceIndex> first = first_equals(request.cluster, request.profiles);
  const model::DeviceIndex master = master_of(request);
  const auto next = std::ranges::find_if(first, [&, d = 0](model::DeviceIndex kind) mutable {
    return d++ != master && kind == master;
  });
  const auto other = static_cast<model::DeviceIndex>(next - first.begin());
  for (model::DeviceIndex d = 0; d < request.cluster.size(); ++d) {
    model::DeviceIndex& kind = first[static_cast<std::size_t>(d)];
    if (d != master && kind == master) kind = other;
  }
  first[static_cast<std::size_t>(master)] = master;
  return first;
}

// What computes the prompts of a group, and the sums that are usual for it.
struct GroupKind {
  std::string_view strategy;
  const char* allreduce;
};
constexpr std::array kKinds{GroupKind{std::string_view(), "star"},
                            GroupKind{kGalaxyGroups, "ring,star"}};

std::string label_of(const Request& request, const std::string& groups) {
  const std::string_view strategy = request.group_strategy;
  return strategy.empty() ? groups : groups + " as " + std::string(strategy);
}

// Offers groups of each kind, with the usual sums. Returns whether one is better than all before.
bool offer_usual(Draft& draft, Alternatives& all) {
  Request& request = draft.request;
  bool is_better = false;
  for (const GroupKind& kind : kKinds) {
    request.group_strategy = kind.strategy;
    request.allreduce = kind.allreduce;
    if (all.offer(label_of(request, request.groups), draft)) is_better = true;
  }
  return is_better;
}

// Offers groups of each kind, with the fastest sums.
void offer_any_sums(Draft& draft, Alternatives& all) {
  Request& request = draft.request;
  request.allreduce = kAutoAllreduce;
  for (const GroupKind& kind : kKinds) {
    request.group_strategy = kind.strategy;
    all.offer(label_of(request, request.groups) + ", any all-reduce", draft);
  }
}

// Offers stages of which pairs are joined, one after another for as long as that helps; of groups
// that differ in equal devices alone, one. Returns the best.
Groups offer_joined(Draft draft, Alternatives& all) {
  Request& request = draft.request;
  Groups groups;
  for (model::DeviceIndex d = 0; d < request.cluster.size(); ++d) groups.push_back({d});
  const std::vector<model::DeviceIndex> first = equals_of(request);
  std::set<Groups> tried;
  for (bool joins = true; joins;) {
    joins = false;
    for (Groups& larger : pairs_joined(groups)) {
      if (!tried.insert(kinds_of(larger, first)).second) continue;
      request.groups = to_text(larger, request.cluster);
      if (!offer_usual(draft, all)) continue;
      groups = std::move(larger);
      joins = true;
    }
  }
  return groups;
}

void walk_stages(const Draft& draft, Alternatives& all) {
  Draft next = draft;
  next.request.open_axes.stages = false;
  const Request& request = next.request;
  all.compare_by(
      [&](const Plan& plan) { return predicted_time(plan, request.objective, request.evaluate); });
  all.offer("one device each", next);
  // Rounds of groups are not searched.
  if (request.rounds.value_or(1) > 1 || request.cluster.size() < 2) return;
  next.request.rounds = 1;
  const Groups near = parse_groups("auto", request.cluster, master_of(request));
  if (has_group(near) && near.size() > 1) {
    next.request.groups = "auto";
    offer_any_sums(next, all);
  }
  // As one group all devices compute as `tensor` or `galaxy` do.
  Groups best;
  if (has_group(near) && near.size() == 1 &&
      (all.best() == nullptr || request.open_axes.at_length)) {
    next.request.groups = to_text(near, request.cluster);
    if (offer_usual(next, all)) best = near;
  }
  if (!request.open_axes.at_length) return;
  if (Groups groups = offer_joined(next, all); has_group(groups)) best = std::move(groups);
  // Shares of streamed weights are sought too long to do so for all sums.
  if (best.empty() || all.best() == nullptr || all.best()->streams()) return;
  next.request.groups = to_text(best, request.cluster);
  offer_any_sums(next, all);
}

}  // namespace

const Axis& stages_axis() {
  static constexpr Axis axis{.name = "stages", .applies = stages_open, .walk = walk_stages};
  return axis;
}

}  // namespace tandem::planner
