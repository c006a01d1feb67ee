#include "planner/search/split_time.hpp"

#include <memory>
#include <optional>
#include <utility>

#include "model/base/error.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/search/least_request_time.hpp"

namespace tandem::planner {
namespace {

constexpr double kRounded = 1.0 - 1e-10;  // less than what the search takes for rounding

// Returns whether every device that streams has a disk.
bool can_stream(const Plan& plan) {
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    if (plan.devices[d].window.streams() && plan.cluster.devices()[d].disk_bandwidth.value() <= 0.0)
      return false;
  }
  return true;
}

// Makes the plan of a split, once for both questions.
class Plans {
 public:
  Plans(const Plan& outline, const Budget& budget, const WindowRequest& request)
      : outline_(&outline), budget_(&budget), request_(request), least_(outline) {}

  double time(const Split& split) {
    const Plan& plan = of(split);
    return can_stream(plan) ? predicted_request_time(plan) : kNever;
  }

  double least(const Split& split, double enough) {
    const Plan& plan = of(split);
    if (!can_stream(plan)) return kNever;
    const bool streamed = plan.streams();
    if (streamed) {
      const double loads = least_.streamed(plan, {}) * kRounded;
      if (loads >= enough) return loads;
    }
    std::vector<model::Share> shares;
    for (const DevicePlan& device : plan.devices) shares.push_back(device.share);
    const LeastRequestTime::Least in_memory = least_.in_memory(shares, enough / kRounded);
    return (streamed ? least_.streamed(plan, in_memory) : in_memory.total()) * kRounded;
  }

 private:
  const Plan& of(const Split& split) {
    if (!plan_ || split != split_) {
      plan_ = with_first_windows(*outline_, to_shares(outline_->model, outline_->master, split),
                                 *budget_, request_, nullptr);
      split_ = split;
    }
    return *plan_;
  }

  const Plan* outline_;
  const Budget* budget_;
  WindowRequest request_;
  LeastRequestTime least_;
  Split split_;
  std::optional<Plan> plan_;  // of split_
};

}  // namespace

Plan with_first_windows(const Plan& outline, const std::vector<model::Share>& shares,
                        const Budget& budget, const WindowRequest& request,
                        std::vector<std::vector<Window>>* all) {
  Plan plan = outline;
  plan.devices.reserve(shares.size());
  for (std::size_t d = 0; d < shares.size(); ++d) {
    std::vector<Window> choices = window_choices(budget, d, shares[d], request);
    require(!choices.empty(), "make_plan: a share that fits has a window that does");
    plan.devices.push_back({.share = shares[d], .memory = {}, .window = choices.front()});
    if (all != nullptr) all->push_back(std::move(choices));
  }
  return plan;
}

SplitTime split_time(const Plan& outline, const Budget& budget, const WindowRequest& request) {
  const auto plans = std::make_shared<Plans>(outline, budget, request);
  return {
      .time = [plans](const Split& split) { return plans->time(split); },
      .least = [plans](const Split& split, double enough) { return plans->least(split, enough); }};
}

}  // namespace tandem::planner
