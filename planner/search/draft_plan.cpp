#include "planner/search/draft_plan.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "model/base/error.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/partition/budget.hpp"
#include "planner/partition/exact/largest_remainder.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/partition/layer_partition.hpp"
#include "planner/partition/proportions.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/partition/share_search.hpp"
#include "planner/search/group_search.hpp"
#include "planner/search/idle_devices.hpp"
#include "planner/search/memory_remedies.hpp"
#include "planner/search/rate_search.hpp"
#include "planner/search/share_candidates.hpp"
#include "planner/search/split_time.hpp"
#include "planner/strategy/common/gathered_weights.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/positions.hpp"
#include "planner/strategy/pipeline.hpp"

namespace tandem::planner {
namespace {

// Galaxy's Algorithm 1 may fail where it need not.
constexpr const char* kOtherSplit =
    "\nother shares do fit, which partition 'galaxy' (Algorithm 1) does not find: use --partition "
    "exact or auto";

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

// Equal shares of all devices that take part in everything.
Shares equal_shares(const Plan& plan, const Strategy& strategy, std::int32_t rounds,
                    const Groups& groups) {
  const std::vector<double> equal(plan.profiles.size(), 1.0);
  if (!groups.empty()) return even_group_shares(plan, groups);
  if (strategy.sharding.replicates()) return uniform_shares(plan, strategy);
  if (strategy.sharding.splits_layers())
    return layer_shares(plan.model, stage_order(plan), plan.master,
                        proportional_shares(equal, plan.model.layers), rounds);
  return to_shares(plan.model, plan.master,
                   strategy.sharding.splits_heads() ? proportional_split(plan.model, equal)
                                                    : master_alone(plan));
}

// Returns that, by device, with such `shares`: approximately what any shares need. Shares are
// searched within it, before they have graphs.
std::vector<double> exchange_bytes(Plan plan, const Shares& shares) {
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
  explicit PlanSearch(const Draft& draft)
      : request_(&draft.request),
        strategy_(&find_strategy(draft.request.strategy)),
        outline_(outline_of(draft)) {
    if (!request_->groups.empty())
      groups_ = parse_groups(request_->groups, outline_.cluster, outline_.master);
  }

  Answer run() && {
    if (std::optional<Infeasible> no = too_many_devices(outline_, *strategy_, groups_))
      return std::move(*no);
    // Of any other shares some device's is larger than of equal ones.
    if (std::string no = too_large(uniform_shares(outline_, *strategy_)); !no.empty())
      return Infeasible{std::move(no)};
    const Shares equal = equal_shares(outline_, *strategy_, request_->rounds.value_or(1), groups_);
    if (std::string no = far_too_large(equal); !no.empty()) return Infeasible{std::move(no)};
    exchange_ = exchange_bytes(outline_, equal);
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
  // Why no shares fit, even without memory for messages, by bytes of weights alone and without a
  // graph; empty: some may, or weights may stream.
  [[nodiscard]] std::string far_too_large(const Shares& equal) const {
    const std::optional<std::int32_t> blocks = request_->window.blocks;
    const bool has_disk = std::ranges::any_of(
        outline_.cluster.devices(),
        [](const model::Device& device) { return device.disk_bandwidth.value() > 0.0; });
    const bool may_stream = strategy_->sharding.may_stream() && blocks != 0;
    if (may_stream && (blocks || has_disk)) return {};
    const Budget bare(outline_, std::vector<double>(equal.size(), 0.0), {});
    const bool is_fixed = strategy_->sharding.is_local() ||
                          (strategy_->sharding.replicates() && !outline_.gather_weights);
    if (bare.may_fit() && !(is_fixed && holds_too_much(bare, equal))) return {};
    const std::string lacks = bare.shortage(equal);
    if (lacks.empty()) return {};
    return lacks + (may_stream ? least_text({}) : "") + more_memory(outline_.model);
  }

  // Returns whether a device's weights and program alone exceed its memory.
  [[nodiscard]] bool holds_too_much(const Budget& budget, const Shares& shares) const {
    for (std::size_t d = 0; d < shares.size(); ++d) {
      const double weights = weight_bytes(outline_.model, shares[d], Window{});
      if (weights > 0.0 && weights + outline_.profiles[d].program_bytes > budget.bytes(d))
        return true;
    }
    return false;
  }

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
      abandon_if_overdue();
      if (best_ && search_ended()) break;
      std::string no = budget.shortage(shares);
      if (!no.empty()) {
        lacks = true;
        no += (windows.empty() ? "" : least_text(windows)) + more_memory(outline_.model);
        if (strategy_->sharding.splits_heads() && outline_.partition == "galaxy" &&
            any_split(budget))
          no += kOtherSplit;
      } else if (strategy_->sharding.has_partition()) {
        no = idle_devices(outline_, *strategy_, shares);
        if (no.empty()) no = too_large(shares);
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

  // Why devices cannot gather these shares, if they are a search's; empty: they can.
  [[nodiscard]] std::string too_large(const Shares& shares) const {
    const bool searches = outline_.gather_weights && is_searched(outline_.partition);
    return searches ? too_large_to_gather(outline_, shares) : std::string();
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
    return no + more_memory(outline_.model);
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
    if (best_ && time >= best_time_ * kBetter) return;
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

Answer plan_draft(const Draft& draft) { return PlanSearch(draft).run(); }

}  // namespace tandem::planner
