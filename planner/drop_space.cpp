#include "planner/drop_space.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "planner/objective.hpp"
#include "planner/storage.hpp"

namespace tandem::planner {
namespace {

// Losses and ratios that differ by less are rounding.
constexpr double kRounding = 1e-9;

Plan with_memory(Plan plan) {
  const std::vector<model::MemoryUse> memory = predicted_memory(plan);
  for (std::size_t d = 0; d < plan.devices.size(); ++d) plan.devices[d].memory = memory[d];
  return plan;
}

}  // namespace

DropSpace::DropSpace(const Plan& base, const LossModel& loss, double step)
    : base_(&base),
      loss_(&loss),
      step_(step),
      most_(static_cast<std::int32_t>(std::floor(loss.most_dropped() / step + kRounding))),
      levels_(static_cast<std::size_t>(base.sparse->levels()) - 1),
      level_(loss.level_of(*base.sparse)) {
  fits_ = most_ == 0 || fits();
}

// 0.7, not 0.7000000000000001.
double DropSpace::ratio(std::int32_t step) const { return std::round(step_ * step * 1e6) / 1e6; }

DropSteps DropSpace::with(DropSteps steps, std::size_t at, std::int32_t to) const {
  const std::size_t begin = at / levels_ * levels_;
  for (std::size_t i = begin; i < at; ++i) steps[i] = std::min(steps[i], to);
  steps[at] = to;
  for (std::size_t i = at + 1; i < begin + levels_; ++i) steps[i] = std::max(steps[i], to);
  return steps;
}

DropSteps DropSpace::raised(const DropSteps& steps, std::size_t at, double bound) const {
  std::int32_t low = steps[at];
  std::int32_t high = most_;
  while (low < high) {
    const std::int32_t middle = low + (high - low + 1) / 2;
    if (loss(with(steps, at, middle)) <= bound + kRounding) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return with(steps, at, low);
}

DropSteps DropSpace::filled(DropSteps steps, std::span<const std::size_t> order,
                            double bound) const {
  for (const std::size_t at : order) steps = raised(steps, at, bound);
  return steps;
}

double DropSpace::loss(const DropSteps& steps) const {
  std::vector<std::vector<double>> dropped(loss_->bands.size());
  for (std::size_t band = 0; band < dropped.size(); ++band) {
    for (const std::int32_t level : level_) {
      const std::size_t at = band * levels_ + static_cast<std::size_t>(level) - 2;
      dropped[band].push_back(ratio(steps[at]));
    }
  }
  return loss_->loss(dropped);
}

double DropSpace::time(const DropSteps& steps) {
  const auto known = times_.find(steps);
  if (known != times_.end()) return known->second;
  double seconds = std::numeric_limits<double>::infinity();
  if (fits_ || steps == none()) {
    seconds = predicted_time(plan(steps), Objective::ttft, model::evaluate_analytic);
  }
  times_.emplace(steps, seconds);
  return seconds;
}

Plan DropSpace::plan(const DropSteps& steps) const {
  Plan plan = *base_;
  for (std::size_t band = 0; band < loss_->bands.size(); ++band) {
    const model::Range layers = loss_->bands[band];
    for (std::int32_t layer = layers.begin; layer < layers.end; ++layer) {
      std::vector<double>& drop = plan.sparse->drop[static_cast<std::size_t>(layer)];
      for (std::size_t n = 0; n < levels_; ++n) drop[n] = ratio(steps[band * levels_ + n]);
    }
  }
  return plan;
}

DropCandidate DropSpace::candidate(const DropSteps& steps) {
  DropCandidate found{
      .levels = base_->sparse->levels(), .loss = loss(steps), .ttft_s = time(steps)};
  for (std::size_t band = 0; band < loss_->bands.size(); ++band) {
    std::vector<double>& drop = found.drop.emplace_back();
    for (std::size_t n = 0; n < levels_; ++n) drop.push_back(ratio(steps[band * levels_ + n]));
  }
  return found;
}

// Scores and lists take room that nothing dropped needs not, and the more the more is kept.
bool DropSpace::fits() const {
  const Plan least = with_memory(plan(DropSteps(size(), 1)));
  for (std::size_t d = 0; d < least.devices.size(); ++d) {
    if (least.devices[d].memory.total() > least.cluster.devices()[d].memory.value()) return false;
  }
  return true;
}

}  // namespace tandem::planner
