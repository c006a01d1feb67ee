#include "planner/search/stage_search.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "model/base/error.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/search/group_search.hpp"
#include "planner/search/rate_search.hpp"
#include "planner/search/window_search.hpp"

namespace tandem::planner {
namespace {

constexpr double kSameStageTime = 1e-9;  // ratios that differ by less are rounding

}  // namespace

model::DeviceIndex master_of(const Request& request) {
  return request.master.empty() ? 0 : request.cluster.find(request.master);
}

void check_rounds(const Request& request, const Strategy& strategy) {
  if (request.rounds == 1) return;
  if (!strategy.sharding.splits_layers()) {
    throw Error("rounds: strategy '" + strategy.name +
                "' has none; leave them out, or use strategy 'pipeline'");
  }
  if (!request.rounds) return;
  const std::int64_t most = std::min<std::int64_t>(kMostRounds, request.model.layers);
  if (*request.rounds < 1 || *request.rounds > most) {
    throw Error("rounds " + std::to_string(*request.rounds) + ": expected 1 to " +
                std::to_string(most) + ", the layers of " + request.model.name +
                " at most, or auto");
  }
  if (request.capacity.steps > 1) {
    throw Error("rounds " + std::to_string(*request.rounds) + ": " +
                std::to_string(request.capacity.steps) +
                " steps in flight, each of which would go round several times: expected 1; plan "
                "with '--in-flight 1' or '--rounds 1'");
  }
}

void check_group_strategy(const Request& request) {
  if (request.group_strategy.empty()) return;
  if (request.group_strategy != kGalaxyGroups) {
    throw Error("group strategy '" + request.group_strategy + "': unknown, expected '" +
                std::string(kGalaxyGroups) + "', or none for tensor");
  }
  if (request.groups.empty()) {
    throw Error("group strategy '" + request.group_strategy +
                "': expected groups of devices; give them with --groups");
  }
}

// More rounds cost messages, and gain only where weights stream meanwhile. Numbers near one another
// differ little, so those tried grow.
Answer with_fastest_rounds(Request request, const Strategy& strategy) {
  request.rounds = 1;
  Answer best = make_plan(request, strategy, {});
  if (request.capacity.steps > 1) return best;
  const auto* const once = std::get_if<Plan>(&best);
  if (once != nullptr && !once->streams()) return best;
  double least =
      once == nullptr ? std::numeric_limits<double>::infinity() : predicted_request_time(*once);
  for (const std::int32_t rounds : {2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64}) {
    if (std::int64_t{rounds} * request.cluster.size() > request.model.layers) break;
    if (once != nullptr && search_ended()) break;
    if (request.partition == kHaldaPartition && request.model.layers % rounds != 0) continue;
    request.rounds = rounds;
    Answer next = make_plan(request, strategy, {});
    if (std::holds_alternative<Infeasible>(next)) continue;
    const double time = predicted_request_time(std::get<Plan>(next));
    if (time >= least * (1.0 - kSameStageTime)) continue;
    least = time;
    best = std::move(next);
  }
  return best;
}

Answer make_group_plan(const Request& request, const Strategy& strategy) {
  if (!strategy.sharding.splits_layers()) {
    throw Error("groups '" + request.groups + "': strategy '" + strategy.name +
                "' has no stages; leave them out, or use strategy 'pipeline'");
  }
  if (request.rounds != 1) {
    throw Error("groups '" + request.groups +
                "': expected one round, as rounds of groups are not searched; leave out --rounds, "
                "or --groups");
  }
  const model::DeviceIndex master = master_of(request);
  const Groups groups = parse_groups(request.groups, request.cluster, master);
  const bool alone =
      std::ranges::all_of(groups, [](const auto& group) { return group.size() == 1; });
  if (alone && !request.group_strategy.empty()) {
    throw Error("group strategy '" + request.group_strategy + "': groups '" + request.groups +
                "' are of one device each, expected one of several at least; leave it out, or name "
                "larger groups");
  }
  if (alone) return make_plan(request, strategy, {});
  const std::string usual = request.group_strategy.empty() ? "star" : "ring,star";
  AllreduceChoice wanted =
      parse_allreduce_choice(request.allreduce.value_or("").empty() ? usual : *request.allreduce);
  Sums sums{.allreduce = {.prompt = "star", .decode = "star"},
            .layout = proximity(request.cluster, master)};
  const std::vector<std::string> names =
      allreduce_candidates(plan_outline(request, strategy, sums));
  std::optional<Answer> best;
  double least = std::numeric_limits<double>::infinity();
  const auto attempt = [&](const AllreduceChoice& choice) {
    sums.allreduce = choice;
    Answer next = make_plan(request, strategy, sums);
    const auto* const plan = std::get_if<Plan>(&next);
    const double time = plan == nullptr ? std::numeric_limits<double>::infinity()
                        : by_rate(*plan, request.objective) ? request_period(*plan)
                                                            : predicted_request_time(*plan);
    if (best && time >= least * (1.0 - kSameStageTime)) return;
    least = time;
    best = std::move(next);
  };
  // One phase after the other, as the time of one does not depend on the sums of the other.
  for (std::string* const phase : {&wanted.decode, &wanted.prompt}) {
    if (*phase != kAutoAllreduce) continue;
    AllreduceChoice choice = wanted;
    for (std::string* const other : {&choice.decode, &choice.prompt}) {
      if (*other == kAutoAllreduce) *other = "star";
    }
    std::string chosen = names.front();
    for (const std::string& name : names) {
      if (best && search_ended()) break;
      (phase == &wanted.decode ? choice.decode : choice.prompt) = name;
      const double before = least;
      attempt(choice);
      if (least < before) chosen = name;
    }
    *phase = chosen;
  }
  if (!best) attempt(wanted);
  return std::move(*best);
}

}  // namespace tandem::planner
