#include "planner/search/drop_space.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "planner/memory/plan_storage.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/search/objective.hpp"

namespace tandem::planner {
namespace {

// Losses and ratios that differ by less are rounding.
constexpr double kRounding = 1e-9;

std::vector<std::size_t> order_from(std::size_t first, std::size_t size, bool backwards) {
  std::vector<std::size_t> order{first};
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t at = backwards ? size - 1 - i : i;
    if (at != first) order.push_back(at);
  }
  return order;
}

}  // namespace

DropSpace::DropSpace(const Plan& base, const LossModel& loss, double step)
    : base_(&base),
      loss_(&loss),
      step_(step),
      most_(static_cast<std::int32_t>(std::floor(loss.most_dropped() / step + kRounding))),
      levels_(static_cast<std::size_t>(base.sparse->levels()) - 1),
      level_(loss.level_of(*base.sparse)) {
  fits_ = most_ == 0 || fits_dropping();
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

Ratios DropSpace::ratios(const DropSteps& steps) const {
  Ratios by_band(loss_->bands.size());
  for (std::size_t at = 0; at < steps.size(); ++at)
    by_band[at / levels_].push_back(ratio(steps[at]));
  return by_band;
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
    seconds = predicted_time(plan(ratios(steps)), Objective::ttft, model::evaluate_analytic);
  }
  times_.emplace(steps, seconds);
  return seconds;
}

void DropSpace::time_all() {
  DropSteps steps = none();
  const auto each = [&](const auto& self, std::size_t at) -> void {
    if (at == steps.size()) {
      static_cast<void>(time(steps));
      return;
    }
    for (std::int32_t i = at % levels_ == 0 ? 0 : steps[at - 1]; i <= most_; ++i) {
      steps[at] = i;
      self(self, at + 1);
    }
  };
  each(each, 0);
}

Plan DropSpace::plan(const Ratios& by_band) const {
  Plan plan = *base_;
  for (std::size_t band = 0; band < by_band.size(); ++band) {
    const model::Range layers = loss_->bands[band];
    for (std::int32_t layer = layers.begin; layer < layers.end; ++layer)
      plan.sparse->drop[static_cast<std::size_t>(layer)] = for_all_heads(by_band[band]);
  }
  return plan;
}

DropCandidate DropSpace::candidate(const DropSteps& steps) {
  return {.levels = base_->sparse->levels(),
          .drop = ratios(steps),
          .loss = loss(steps),
          .ttft_s = time(steps)};
}

// Scores and lists need memory that dropping nothing does not, and more the more is kept.
bool DropSpace::fits_dropping() const {
  return fits(with_predicted_memory(plan(ratios(DropSteps(size(), 1)))));
}

DropSteps fastest_within(DropSpace& space, double bound, std::vector<DropSteps> starts,
                         bool thorough) {
  const std::size_t size = space.size();
  for (std::size_t first = 0; first < size && thorough; ++first) {
    for (const bool backwards : {false, true})
      starts.push_back(space.filled(space.none(), order_from(first, size, backwards), bound));
  }
  std::int32_t uniform = space.most();
  while (uniform > 0 && space.loss(DropSteps(size, uniform)) > bound + kRounding) --uniform;
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  starts.push_back(space.filled(DropSteps(size, uniform), order, bound));

  // Even if nothing dropped is as fast here, it may be slower where links are shared.
  DropSteps best = space.none();
  for (const DropSteps& start : starts) {
    if (start == space.none() || space.loss(start) > bound + kRounding) continue;
    if (!std::isfinite(space.time(start))) continue;
    if (best == space.none() || space.time(start) < space.time(best) * kBetter) best = start;
  }
  const auto better = [&]() -> bool {
    DropSteps found = best;
    const auto consider = [&](const DropSteps& steps) {
      if (steps != space.none() && space.time(steps) < space.time(found) * kBetter) found = steps;
    };
    for (std::size_t at = 0; at < size; ++at) {
      for (std::int32_t by = 1; best[at] > 0; by = std::min(2 * by, best[at])) {
        const DropSteps lower = space.with(best, at, best[at] - by);
        if (by == best[at]) consider(lower);
        for (std::size_t other = 0; other < size; ++other) {
          if (other == at) continue;
          std::vector<std::size_t> others = order_from(other, size, false);
          std::erase(others, at);
          // Also to 0 and staying there, as dropping nothing at all needs no scores.
          if (by < best[at]) others.push_back(at);
          consider(space.filled(lower, others, bound));
        }
        if (by == best[at]) break;
      }
    }
    if (found == best) return false;
    best = found;
    return true;
  };
  while (better()) {
  }
  return best;
}

}  // namespace tandem::planner
