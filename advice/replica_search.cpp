#include "advice/replica_search.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "advice/choice.hpp"
#include "advice/device_moves.hpp"
#include "advice/settings.hpp"
#include "model/base/error.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/search/device_choice.hpp"
#include "planner/search/group_search.hpp"
#include "planner/serving/planned_service.hpp"
#include "planner/serving/service_objective.hpp"

namespace tandem::study {
namespace {

using model::DeviceIndex;
using planner::InferenceRequest;
using planner::Replica;
using Group = std::vector<DeviceIndex>;  // ascending
using Groups = std::vector<Group>;

constexpr double kGainsEnough = 1.0 - 1e-3;
constexpr std::size_t kMostRegrouped = 8;  // of more devices, none changes its group

class ReplicaSearch {
 public:
  explicit ReplicaSearch(const ReplicaQuestion& asked)
      : asked_(&asked),
        own_effort_(asked.limits),
        effort_(asked.question.effort != nullptr ? asked.question.effort : &own_effort_),
        rates_(device_rates(asked.question)) {}

  ReplicaChoice run() {
    const auto devices = static_cast<std::int64_t>(rates_.size());
    const auto requests = std::ssize(asked_->question.served->requests);
    const std::int64_t most = std::min(devices, requests);
    std::vector<Groups> starts;
    for (std::int64_t count = asked_->count > 0 ? asked_->count : asked_->least;
         count <= (asked_->count > 0 ? asked_->count : most); ++count) {
      for (Groups& groups : divisions(static_cast<std::size_t>(count))) {
        if (std::ranges::find(starts, groups) == starts.end()) starts.push_back(std::move(groups));
      }
    }
    for (std::size_t i = 0; i < starts.size() && !ended(); ++i) {
      left_ = starts.size() - i;
      evaluate(starts[i]);
    }
    if (rates_.size() <= kMostRegrouped) improve();
    choice_.evaluations = spent_;
    return std::move(choice_);
  }

 private:
  [[nodiscard]] double rate_of(const Group& group) const {
    double sum = 0.0;
    for (const DeviceIndex d : group) sum += rates_[static_cast<std::size_t>(d)];
    return sum;
  }

  // Returns `units` in `count` groups: the fastest first, each to the slowest group.
  [[nodiscard]] Groups grouped(std::vector<Group> units, std::size_t count) const {
    std::ranges::stable_sort(units, std::greater<>(),
                             [&](const Group& unit) { return rate_of(unit); });
    Groups groups(count);
    for (const Group& unit : units) {
      Group& slowest =
          *std::ranges::min_element(groups, {}, [&](const Group& one) { return rate_of(one); });
      slowest.insert(slowest.end(), unit.begin(), unit.end());
    }
    for (Group& group : groups) std::ranges::sort(group);
    std::ranges::sort(groups);
    return groups;
  }

  // The divisions to begin with, of `count` groups.
  [[nodiscard]] std::vector<Groups> divisions(std::size_t count) const {
    std::vector<Group> single;
    for (std::size_t d = 0; d < rates_.size(); ++d) single.push_back({static_cast<DeviceIndex>(d)});
    std::vector<Groups> all{grouped(single, count)};
    const planner::Request& request = asked_->question.request;
    std::vector<Group> near;
    for (const auto& group : planner::parse_groups("auto", request.cluster, 0))
      near.emplace_back(group.begin(), group.end());
    if (near.size() >= count && near.size() < single.size()) all.push_back(grouped(near, count));
    return all;
  }

  [[nodiscard]] bool ended() {
    if (choice_.best) effort_->has_plan();
    const std::optional<std::int64_t> most = asked_->limits.evaluations;
    const bool over =
        effort_->ended() || effort_->interrupted() || (choice_.best && most && spent_ >= *most);
    if (over) choice_.to_the_end = false;
    return over;
  }

  // The limits of the search of one group, of `groups` that are left to search.
  [[nodiscard]] planner::SearchEffort::Limits limits(std::size_t groups) const {
    planner::SearchEffort::Limits own = asked_->limits;
    const std::size_t later = (left_ - 1) * rates_.size() / 2;  // of the divisions behind this one
    const auto parts = static_cast<double>(groups + later);
    if (own.seconds) own.seconds = std::max(0.0, (*own.seconds - effort_->seconds()) / parts);
    if (own.evaluations)
      own.evaluations = std::max<std::int64_t>(
          1, static_cast<std::int64_t>(static_cast<double>(*own.evaluations - spent_) / parts));
    return own;
  }

  // Positions of the requests that each group is planned for.
  [[nodiscard]] std::vector<std::vector<std::size_t>> parts(const Groups& groups) const {
    std::vector<std::vector<std::size_t>> of_each(groups.size());
    std::vector<double> tokens(groups.size(), 0.0);
    const std::vector<InferenceRequest>& requests = asked_->question.served->requests;
    for (std::size_t r = 0; r < requests.size(); ++r) {
      const auto more = static_cast<double>(requests[r].prompt_tokens + requests[r].limit());
      std::size_t least = 0;
      double earliest = std::numeric_limits<double>::infinity();
      for (std::size_t g = 0; g < groups.size(); ++g) {
        const double end = (tokens[g] + more) / rate_of(groups[g]);
        if (end >= earliest) continue;
        earliest = end;
        least = g;
      }
      tokens[least] += more;
      of_each[least].push_back(r);
    }
    for (std::vector<std::size_t>& none : of_each) {
      std::vector<std::size_t>& most =
          *std::ranges::max_element(of_each, {}, &std::vector<std::size_t>::size);
      if (!none.empty() || most.size() < 2) continue;
      none.push_back(most.back());
      most.pop_back();
    }
    return of_each;
  }

  // A group's plan, or why there is none.
  struct Planned {
    std::optional<Replica> replica{};
    std::string reason{};
  };

  const Planned& planned(const Group& group, const std::vector<std::size_t>& part,
                         std::size_t groups_left) {
    const auto [at, added] = planned_.try_emplace({group, part});
    if (added) at->second = plan(group, part, groups_left);
    return at->second;
  }

  Planned plan(const Group& group, const std::vector<std::size_t>& part, std::size_t groups_left) {
    Question own = asked_->question;
    std::vector<bool> used(rates_.size(), false);
    for (const DeviceIndex d : group) used[static_cast<std::size_t>(d)] = true;
    own.request.profiles = profiles_of(own.request);
    own.request = planner::for_devices(std::move(own.request), used);
    own.served->requests.clear();
    for (const std::size_t r : part)
      own.served->requests.push_back(asked_->question.served->requests[r]);
    planner::SearchEffort effort(limits(groups_left));
    own.effort = &effort;
    own.progress = [&](const BestSoFar& best) {
      if (asked_->question.progress) asked_->question.progress(best);
      if (effort_->interrupted()) effort.interrupt();
    };
    Choice found;
    try {
      found = choose(own);
    } catch (const Error& error) {
      return {.reason = error.what()};
    }
    spent_ += effort.evaluations();
    if (!found.to_the_end) choice_.to_the_end = false;
    if (found.contenders.empty())
      return {.reason =
                  found.without.empty() ? "no strategy has a plan" : found.without.front().second};
    Contender& best = found.contenders.front();
    return {.replica = Replica{.plan = std::move(best.plan),
                               .policy = best.policy,
                               .chunk = best.chunk,
                               .steps = own.served->steps,
                               .made_for = planner::lengths_of(own.served->requests)}};
  }

  [[nodiscard]] std::vector<std::string> names(const Group& group) const {
    std::vector<std::string> all;
    for (const DeviceIndex d : group)
      all.push_back(asked_->question.request.cluster.devices()[static_cast<std::size_t>(d)].name);
    return all;
  }

  // Returns whether the division became the best.
  bool evaluate(const Groups& groups) {
    if (!seen_.insert(groups).second) return false;
    if (asked_->progress) asked_->progress(choice_.divisions.size(), seen_.size() + left_ - 1);
    Division division;
    for (const Group& group : groups) division.groups.push_back(names(group));
    const std::vector<std::vector<std::size_t>> part = parts(groups);
    std::optional<std::size_t> without;  // the group that has no plan
    for (std::size_t g = 0; g < groups.size() && division.reason.empty(); ++g) {
      if (part[g].empty()) {
        division.reason = "a replica would have no request; give fewer replicas";
        break;
      }
      const Planned& of_group = planned(groups[g], part[g], groups.size() - g);
      if (of_group.replica) {
        division.replicas.push_back(*of_group.replica);
      } else {
        division.reason = of_group.reason;
        without = g;
      }
    }
    if (division.reason.empty()) {
      const planner::AbandonScope scope(*effort_);
      try {
        compare(division);
      } catch (const planner::SearchAbandoned&) {
        division.reason = "the search ended before it";
      }
    }
    if (!division.reason.empty()) division.replicas.clear();
    const bool better = is_better(division);
    choice_.divisions.push_back(std::move(division));
    if (better) choice_.best = choice_.divisions.size() - 1;
    if (without && groups.size() > 1 && asked_->count == 0)
      return evaluate(merged(groups, *without)) || better;
    return better;
  }

  void compare(Division& division) {
    const std::vector<InferenceRequest>& requests = asked_->question.served->requests;
    division.reason = planner::shared_link(division.replicas);
    if (!division.reason.empty()) return;
    settle(division.replicas);
    std::vector<model::Result> of_each;
    for (const Replica& replica : division.replicas) {
      if (replica.requests.empty()) {
        division.reason = "by " + std::string(asked_->rule->name) +
                          " a replica would have none of the " + std::to_string(requests.size()) +
                          " requests; give fewer replicas";
        return;
      }
      of_each.push_back(
          predict_served_fairly(replica.plan, served_by(replica, replica.part(requests))));
    }
    division.seconds = planner::service_time(planner::joined(requests, division.replicas, of_each),
                                             asked_->question.request.objective);
  }

  // Dispatches the requests by what the replicas are sent themselves, as far as that settles.
  void settle(std::vector<Replica>& replicas) const {
    constexpr int kMost = 4;
    const std::vector<InferenceRequest>& requests = asked_->question.served->requests;
    dispatch(requests, *asked_->rule, replicas);
    for (int i = 1; i < kMost; ++i) {
      std::vector<Replica> next = replicas;
      for (Replica& replica : next) {
        if (replica.requests.empty()) return;
        replica.made_for = planner::lengths_of(replica.part(requests));
      }
      dispatch(requests, *asked_->rule, next);
      const bool settled =
          std::ranges::equal(next, replicas, {}, &Replica::requests, &Replica::requests);
      replicas = std::move(next);
      if (settled) return;
    }
  }

  [[nodiscard]] bool is_better(const Division& division) const {
    if (!division.reason.empty()) return false;
    if (!choice_.best) return true;
    const Division& best = choice_.divisions[*choice_.best];
    if (division.seconds < best.seconds * kGainsEnough) return true;
    return division.seconds * kGainsEnough <= best.seconds &&
           division.replicas.size() < best.replicas.size();
  }

  // Group `gone` joins the slowest of the others.
  [[nodiscard]] Groups merged(Groups groups, std::size_t gone) const {
    const Group devices = groups[gone];
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(gone));
    Group& slowest =
        *std::ranges::min_element(groups, {}, [&](const Group& one) { return rate_of(one); });
    slowest.insert(slowest.end(), devices.begin(), devices.end());
    std::ranges::sort(slowest);
    std::ranges::sort(groups);
    return groups;
  }

  // Single devices change groups while that helps.
  void improve() {
    left_ = 1;
    for (bool moved = choice_.best.has_value(); moved;) {
      moved = false;
      for (const Groups& next : neighbours(groups_of(choice_.divisions[*choice_.best]))) {
        if (ended()) return;
        moved = evaluate(next);
        if (moved) break;
      }
    }
  }

  [[nodiscard]] Groups groups_of(const Division& division) const {
    Groups groups;
    for (const std::vector<std::string>& group : division.groups) {
      Group& devices = groups.emplace_back();
      for (const std::string& name : group)
        devices.push_back(asked_->question.request.cluster.find(name));
    }
    return groups;
  }

  [[nodiscard]] static std::vector<Groups> neighbours(const Groups& groups) {
    std::vector<Groups> all;
    for (std::size_t from = 0; from < groups.size(); ++from) {
      if (groups[from].size() < 2) continue;
      for (std::size_t i = 0; i < groups[from].size(); ++i) {
        for (std::size_t to = 0; to < groups.size(); ++to) {
          if (to == from) continue;
          Groups next = groups;
          next[to].push_back(groups[from][i]);
          next[from].erase(next[from].begin() + static_cast<std::ptrdiff_t>(i));
          std::ranges::sort(next[to]);
          std::ranges::sort(next);
          all.push_back(std::move(next));
        }
      }
    }
    return all;
  }

  const ReplicaQuestion* asked_;
  planner::SearchEffort own_effort_;
  planner::SearchEffort* effort_;  // for the time of all; evaluations are in spent_
  std::vector<double> rates_;      // by DeviceIndex
  std::map<std::pair<Group, std::vector<std::size_t>>, Planned> planned_;
  std::set<Groups> seen_;
  std::size_t left_ = 1;  // divisions that are sure to be evaluated
  std::int64_t spent_ = 0;
  ReplicaChoice choice_;
};

}  // namespace

ReplicaChoice choose_replicas(const ReplicaQuestion& asked) {
  require(asked.question.served.has_value() && asked.rule != nullptr,
          "choose_replicas: many requests, and a rule");
  return ReplicaSearch(asked).run();
}

}  // namespace tandem::study
