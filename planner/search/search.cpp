#include "planner/search/search.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "model/base/error.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/partition/budget.hpp"
#include "planner/partition/exact/largest_remainder.hpp"
#include "planner/partition/galaxy_partition.hpp"
#include "planner/partition/layer_partition.hpp"
#include "planner/partition/proportions.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/partition/share_search.hpp"
#include "planner/search/group_search.hpp"
#include "planner/search/head_search.hpp"
#include "planner/search/idle_devices.hpp"
#include "planner/search/phase_search.hpp"
#include "planner/search/rate_search.hpp"
#include "planner/search/request_checks.hpp"
#include "planner/search/share_candidates.hpp"
#include "planner/search/split_time.hpp"
#include "planner/search/stage_search.hpp"
#include "planner/search/token_ffn.hpp"
#include "planner/search/window_search.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/model_support.hpp"
#include "planner/strategy/common/positions.hpp"
#include "planner/strategy/pipeline.hpp"

namespace tandem::planner {
namespace {

constexpr double kEqualTimes = 1e-9;  // ratios that differ by less are rounding

constexpr const char* kMoreMemory =
    "remedy: fewer tokens, more devices or memory, weights in fewer bits (--dtype), or a smaller "
    "model";

// Galaxy's Algorithm 1 may fail where it need not.
constexpr const char* kOtherSplit =
    "\nother shares do fit, which partition 'galaxy' (Algorithm 1) does not find: use --partition "
    "exact or auto";

model::Cluster limited(const model::Cluster& cluster, std::optional<model::Bytes> limit) {
  if (!limit) return cluster;
  std::vector<model::Device> devices = cluster.devices();
  for (model::Device& device : devices) device.memory = std::min(device.memory, *limit);
  return {cluster.name(), std::move(devices), cluster.routers(), cluster.links(), cluster.edges()};
}

// The plan without shares.
Plan outline(const Request& request, const Strategy& strategy, const Sums& sums) {
  Plan plan{.strategy = request.strategy,
            .partition = strategy.sharding.has_partition() ? request.partition : "",
            .allreduce = sums.allreduce,
            .layout = sums.layout,
            .tiles = (strategy.sharding.exchanges_rows() && !request.sparse) ||
                             !request.group_strategy.empty()
                         ? request.tiles.value_or(1)
                         : 0,
            .decode_moves = request.decode_moves,
            .gather_weights = request.gather_weights,
            .group_strategy = request.group_strategy,
            .model = request.model,
            .cluster = limited(request.cluster, request.memory_limit),
            .master = master_of(request),
            .workload = request.workload,
            .capacity = request.capacity,
            .devices = {},
            .profiles = request.profiles,
            .release = request.release,
            .wire = request.wire};
  plan.model.validate();
  check_model_support(strategy, plan.model);
  if (request.sparse && plan.model.latent) {
    throw Error("sparse attention (--levels, --drop): model " + plan.model.name +
                " has latent attention, expected keys and values by heads; leave it out");
  }
  if (request.sparse) {
    plan.sparse = sparse_attention(*request.sparse, plan.cluster, plan.master, plan.model.layers);
    if (strategy.sharding.sparse_by_rank()) set_layout(plan, sums.layout);
  }
  check_window(request);
  plan.workload.validate(plan.model);
  if (plan.profiles.empty()) {
    plan.profiles.reserve(plan.cluster.devices().size());
    for (const model::Device& device : plan.cluster.devices()) {
      plan.profiles.push_back(model::nominal_profile(device));
    }
  }
  if (plan.profiles.size() != plan.cluster.devices().size()) {
    throw Error("profiles: " + std::to_string(plan.profiles.size()) +
                ": expected one for each of the " + std::to_string(plan.cluster.size()) +
                " devices of platform '" + plan.cluster.name() + "'");
  }
  for (model::DeviceProfile& profile : plan.profiles)
    profile = model::for_formats(std::move(profile), plan.model.formats, plan.model.cache);
  return plan;
}

// Describes the windows for which the shortage was counted.
std::string least_text(const std::vector<Window>& windows) {
  Window least;
  for (const Window window : windows) {
    if (window.streams()) least = window;
  }
  if (!least.streams()) return "no device can stream weights: no 'tandem:disk_bandwidth'\n";
  return "this is with a window of " + std::to_string(least.blocks) +
         (least.blocks == 1 ? " block" : " blocks") + " and " +
         (least.retain > 0 ? "one FFN block in " + std::to_string(least.retain) : "no block") +
         " retained, on devices that have a disk\n";
}

// A requested window needs a disk.
void check_disk(const Plan& plan, std::size_t d, Window window) {
  const model::Device& device = plan.cluster.devices()[d];
  if (!window.streams() || device.disk_bandwidth.value() > 0.0) return;
  throw Error("device '" + device.name +
              "': a window streams weights from its disk, expected a positive "
              "'tandem:disk_bandwidth' in the platform; give it one, or plan with '--window all'");
}

// Returns the memory of a device that shares do not determine: receive buffers and messages, its
// session, and the padding of weights to whole pages.
double beyond_shares(const Plan& plan, std::size_t d, const model::MemoryUse& use) {
  const DevicePlan& device = plan.devices[d];
  return use.buffers + (use.program - plan.profiles[d].program_bytes) +
         (use.weights - weight_bytes(plan.model, device.share, device.window));
}

// Returns that, by device, if every device takes part in everything: approximately what any shares
// need. Shares are searched within it, before they have graphs.
std::vector<double> exchange_bytes(Plan plan, const Strategy& strategy, std::int32_t rounds,
                                   const Groups& groups) {
  const std::vector<double> equal(plan.profiles.size(), 1.0);
  const std::vector<model::Share> shares =
      !groups.empty()                  ? even_group_shares(plan, groups)
      : strategy.sharding.replicates() ? uniform_shares(plan, strategy)
      : strategy.sharding.splits_layers()
          ? layer_shares(plan.model, stage_order(plan), plan.master,
                         proportional_shares(equal, plan.model.layers), rounds)
          : to_shares(plan.model, plan.master,
                      strategy.sharding.splits_heads() ? proportional_split(plan.model, equal)
                                                       : master_alone(plan));
  plan.devices.clear();
  for (const model::Share& share : shares) plan.devices.push_back({.share = share, .memory = {}});
  std::vector<double> bytes;
  const std::vector<model::MemoryUse> memory = predicted_memory(plan);
  for (std::size_t d = 0; d < memory.size(); ++d)
    bytes.push_back(beyond_shares(plan, d, memory[d]));
  return bytes;
}

// The search for a plan: its input, and the fastest plan so far.
class PlanSearch {
 public:
  PlanSearch(const Request& request, const Strategy& strategy, const Sums& sums)
      : request_(&request), strategy_(&strategy), outline_(outline(request, strategy, sums)) {
    if (!request.groups.empty())
      groups_ = parse_groups(request.groups, outline_.cluster, outline_.master);
  }

  Answer run() && {
    if (std::optional<Infeasible> no = too_many_devices(outline_, *strategy_, groups_))
      return std::move(*no);
    exchange_ = exchange_bytes(outline_, *strategy_, request_->rounds.value_or(1), groups_);
    const std::optional<std::int32_t> blocks = request_->window.blocks;
    bool streams = blocks.value_or(0) > 0;
    if (streams && !strategy_->sharding.may_stream()) {
      throw Error("window " + std::to_string(*blocks) + ": strategy '" + strategy_->name +
                  "' keeps all weights in memory; leave it out, or use another strategy");
    }
    if (!streams) {
      const bool wants_room = try_windows({});
      streams = wants_room && !blocks && strategy_->sharding.may_stream();
    }
    if (streams && !(best_ && search_ended()))
      try_windows(least_windows(outline_, request_->window));
    if (best_) return std::move(*best_);
    return std::move(refusal_);
  }

 private:
  // Tries the shares that fit beside `windows`; returns whether there might be more, or faster
  // ones, with fewer weights in memory.
  bool try_windows(const std::vector<Window>& windows) {
    while (true) {
      const std::vector<double> before = exchange_;
      const bool wants_room = try_shares(windows);
      // If some shares needed more memory for messages than assumed, searches again with that.
      if (exchange_ == before) return wants_room;
    }
  }

  // With equal devices several candidates are the same.
  static void drop_repeated(std::vector<Shares>& all) {
    for (auto at = all.begin(); at != all.end();)
      at = std::find(all.begin(), at, *at) == at ? at + 1 : all.erase(at);
  }

  bool try_shares(const std::vector<Window>& windows) {
    const Budget budget(outline_, exchange_, windows);
    const bool streams = std::ranges::any_of(windows, &Window::streams);
    ShareCandidates found =
        candidates(budget, streams ? split_time(outline_, budget, request_->window) : SplitTime{});
    if (head_unit(outline_) > 1 && is_searched(outline_.partition)) {
      for (Shares& shares : found.shares) take_whole_kv_heads(outline_.model, shares);
    }
    drop_repeated(found.shares);
    bool lacks = false;
    for (const Shares& shares : found.shares) {
      if (best_ && search_ended()) break;
      std::string no = budget.shortage(shares);
      if (!no.empty()) {
        lacks = true;
        no += (windows.empty() ? "" : least_text(windows)) + kMoreMemory;
        if (strategy_->sharding.splits_heads() && outline_.partition == "galaxy" &&
            any_split(budget))
          no += kOtherSplit;
      } else if (strategy_->sharding.has_partition()) {
        no = idle_devices(outline_, *strategy_, shares);
      }
      std::optional<Plan> plan;
      if (no.empty()) {
        plan = with_shares(shares, budget);
        no = beyond_budget(*plan);
        lacks = lacks || !no.empty();
      }
      if (no.empty()) {
        take(std::move(*plan), found.shares.size() == 1);
      } else if (&shares == &found.shares.front()) {
        refusal_ = {std::move(no)};
      }
    }
    return best_ ? found.memory_binds : lacks;
  }

  [[nodiscard]] ShareCandidates candidates(const Budget& budget, const SplitTime& streamed) const {
    if (groups_.empty()) return find_shares(outline_, *strategy_, budget, streamed, *request_);
    GroupCandidates found = group_candidates(outline_, groups_, budget, *request_);
    ShareCandidates all{.shares = std::move(found.shares), .memory_binds = true};
    if (all.shares.empty()) all.shares.push_back(std::move(found.first));
    return all;
  }

  // A plan of shares that fit, with the best windows that the budget leaves room for.
  [[nodiscard]] Plan with_shares(const Shares& shares, const Budget& budget) const {
    std::vector<std::vector<Window>> choices;
    Plan plan = with_first_windows(outline_, shares, budget, request_->window, &choices);
    const bool streams = request_->window.blocks.value_or(0) > 0;
    for (std::size_t d = 0; d < shares.size() && streams; ++d)
      check_disk(plan, d, choices[d].front());
    if (request_->window.search) choose_windows(plan, choices);
    return with_predicted_memory(std::move(plan));
  }

  // Why a plan whose messages need more than was thought does not fit after all; empty if it does.
  std::string beyond_budget(const Plan& plan) {
    std::vector<double> exchange = exchange_;
    std::vector<Window> windows;
    Shares shares;
    for (std::size_t d = 0; d < plan.devices.size(); ++d) {
      exchange[d] = beyond_shares(plan, d, plan.devices[d].memory);
      windows.push_back(plan.devices[d].window);
      shares.push_back(plan.devices[d].share);
    }
    std::string no = Budget(outline_, exchange, std::move(windows)).shortage(shares);
    if (no.empty()) return no;
    for (std::size_t d = 0; d < exchange.size(); ++d)
      exchange_[d] = std::max(exchange_[d], exchange[d]);
    return no + kMoreMemory;
  }

  // Keeps `plan` if it is the fastest, or the only one.
  void take(Plan plan, bool only) {
    plan.validate();
    if (only && !best_) {
      best_ = std::move(plan);
      return;
    }
    if (best_ && best_time_ < 0.0) best_time_ = time_of(*best_);
    const double time = time_of(plan);
    if (best_ && time >= best_time_ * (1.0 - kEqualTimes)) return;
    best_ = std::move(plan);
    best_time_ = time;
  }

  [[nodiscard]] double time_of(const Plan& plan) const {
    return by_rate(plan, request_->objective) ? request_period(plan) : predicted_request_time(plan);
  }

  const Request* request_;
  const Strategy* strategy_;
  Plan outline_;                  // without shares
  Groups groups_{};               // of the request
  std::vector<double> exchange_;  // by device
  std::optional<Plan> best_;
  double best_time_ = -1.0;  // of best_; negative: not known
  Infeasible refusal_;
};

}  // namespace

Plan plan_outline(const Request& request, const Strategy& strategy, const Sums& sums) {
  return outline(request, strategy, sums);
}

Answer make_plan(const Request& request, const Strategy& strategy, const Sums& sums) {
  return PlanSearch(request, strategy, sums).run();
}

namespace {

// Shares that are about those that will be found, to choose sums for.
Plan likely_plan(const Request& request, const Strategy& strategy, const AllreduceChoice& wanted) {
  Plan plan = outline(request, strategy, {.allreduce = wanted, .layout = {}});
  if (strategy.sharding.replicates()) {
    for (const model::Share& share : uniform_shares(plan, strategy))
      plan.devices.push_back({.share = share, .memory = {}});
    return plan;
  }
  const bool by_speed = is_searched(plan.partition);
  const Split split =
      proportional_split(plan.model, by_speed ? capacities(plan) : given_proportions(plan));
  for (const model::Share& share : to_shares(plan.model, plan.master, split))
    plan.devices.push_back({.share = share, .memory = {}});
  return plan;
}

// The answers for sums, each searched for once.
class Answers {
 public:
  Answers(const Request& request, const Strategy& strategy)
      : request_(&request), strategy_(&strategy) {}
  const Answer& with(const Sums& sums) {
    const auto known = std::ranges::find(known_, sums, &Known::first);
    if (known != known_.end()) return known->second;
    return known_.emplace_back(sums, make_plan(*request_, *strategy_, sums)).second;
  }

 private:
  using Known = std::pair<Sums, Answer>;
  const Request* request_;
  const Strategy* strategy_;
  std::deque<Known> known_;  // whose answers stay where they are
};

// Auto, where requested, is the first candidate that has a plan, then the fastest one with the
// shares of that plan.
Answer make_auto_plan(const Request& request, const Strategy& strategy,
                      const AllreduceChoice& wanted) {
  const Proximity layout =
      first_layout(outline(request, strategy, {.allreduce = wanted, .layout = {}}), wanted);
  const auto with = [&](const std::string& candidate) {
    AllreduceChoice choice = wanted;
    for (std::string* const phase : {&choice.prompt, &choice.decode}) {
      if (*phase == kAutoAllreduce) *phase = candidate;
    }
    return Sums{.allreduce = choice, .layout = layout};
  };
  const std::vector<std::string> candidates =
      allreduce_candidates(outline(request, strategy, with("star")));
  Answers answers(request, strategy);
  const Answer* first = &answers.with(with(candidates.front()));
  for (std::size_t i = 1; i < candidates.size() && std::holds_alternative<Infeasible>(*first);
       ++i) {
    const Answer& next = answers.with(with(candidates[i]));
    if (std::holds_alternative<Plan>(next)) first = &next;
  }
  if (std::holds_alternative<Infeasible>(*first)) return *first;
  // Sums and shares each depend on the other: both orders are tried.
  Plan best = std::get<Plan>(*first);
  double least = -1.0;
  for (const Plan& plan : {likely_plan(request, strategy, wanted), best}) {
    if (search_ended()) break;
    const Answer& next = answers.with(fastest_sums(plan, wanted, request.evaluate));
    if (std::holds_alternative<Infeasible>(next)) continue;
    const Plan& made = std::get<Plan>(next);
    if (made == best) continue;
    if (least < 0.0) least = trial_request_time(best, request.evaluate);
    const double time = trial_request_time(made, request.evaluate);
    if (time >= least * (1.0 - kEqualTimes)) continue;
    least = time;
    best = made;
  }
  return best;
}

void set_tiles(Plan& plan, std::int32_t tiles) {
  if (plan.sparse) {
    plan.sparse->set_tiles({tiles});
  } else {
    plan.tiles = tiles;
  }
}

// Returns the plan with the fastest number of tiles among those whose messages fit: of all rows or,
// with levels, of the rows that travel at each. Only prompts have tiles: new tokens take the same
// time with any.
Plan with_fastest_tiles(Plan plan, const Evaluator& evaluate) {
  if (search_ended()) return plan;
  const Plan found = plan;  // with its memory
  if (plan.cluster.size() == 1) plan.tiles = 0;
  Plan best = plan;
  double least = std::numeric_limits<double>::infinity();
  std::optional<double> tokens;
  const int least_tiles = plan.sparse ? 1 : 0;
  for (const std::int32_t tiles : {0, 1, 2, 4}) {
    if (tiles < least_tiles) continue;
    if (least < std::numeric_limits<double>::infinity() && search_ended()) break;
    set_tiles(plan, tiles);
    plan = plan == found ? found : with_predicted_memory(std::move(plan));
    if (!fits(plan)) continue;
    if (!tokens && !plan.sparse) tokens = trial_tokens_time(plan, evaluate);
    // The few layers of a trial drop nothing.
    const double time = plan.sparse ? predicted_request_time(plan, evaluate)
                                    : trial_prompt_time(plan, evaluate) + *tokens;
    if (time >= least * (1.0 - kEqualTimes)) continue;
    least = time;
    best = plan;
  }
  return best;
}

}  // namespace

std::variant<Plan, Infeasible> make_plan(const Request& request) {
  if (request.head != HeadPlacement::master || request.candidates > 0)
    return make_head_plan(request);
  if (request.token_ffn != TokenFfn::owner) return make_token_plan(request);
  if (request.objective == Objective::ttft || request.objective == Objective::latency)
    return make_phase_plan(request);
  const Strategy& strategy = find_strategy(request.strategy);
  check_tiles(request, strategy);
  check_sparse(request, strategy);
  check_gathering(request, strategy);
  if ((request.sparse || request.gather_weights) && !request.window.blocks) {
    Request resident = request;  // weights do not stream
    resident.window.blocks = 0;
    return make_plan(resident);
  }
  check_rounds(request, strategy);
  if (request.partition == kHaldaPartition && !strategy.sharding.splits_layers()) {
    throw Error("partition 'halda': of layers, which strategy '" + strategy.name +
                "' does not split; use strategy 'pipeline'");
  }
  check_group_strategy(request);
  if (!request.groups.empty()) {
    Answer answer = make_group_plan(request, strategy);
    if (request.group_strategy.empty() || request.tiles ||
        std::holds_alternative<Infeasible>(answer))
      return answer;
    return with_fastest_tiles(std::get<Plan>(std::move(answer)), request.evaluate);
  }
  if (!request.rounds) return with_fastest_rounds(request, strategy);
  if (!strategy.sharding.has_collective()) return make_plan(request, strategy, {});
  const AllreduceChoice wanted =
      parse_allreduce_choice(request.allreduce.value_or(strategy.allreduce));
  Answer answer = wanted.prompt != kAutoAllreduce && wanted.decode != kAutoAllreduce
                      ? make_plan(request, strategy,
                                  fastest_sums(likely_plan(request, strategy, wanted), wanted,
                                               request.evaluate))
                      : make_auto_plan(request, strategy, wanted);
  const bool any_tiles = request.sparse
                             ? request.sparse->tiles.empty() && !strategy.sharding.sparse_by_rank()
                             : strategy.sharding.exchanges_rows() && !request.tiles;
  if (any_tiles && std::holds_alternative<Plan>(answer))
    return with_fastest_tiles(std::get<Plan>(std::move(answer)), request.evaluate);
  return answer;
}

}  // namespace tandem::planner
