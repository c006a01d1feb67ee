#include "planner/drop_search.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "model/error.hpp"
#include "model/quantity_text.hpp"
#include "model/text_table.hpp"
#include "planner/collective/proximity.hpp"
#include "planner/drop_space.hpp"
#include "planner/objective.hpp"
#include "planner/storage.hpp"

namespace tandem::planner {
namespace {

constexpr double kFaster = 1.0 - 1e-9;  // less is rounding
constexpr double kNoBound = std::numeric_limits<double>::infinity();
constexpr std::int32_t kHalvings = 12;  // of the loss, where a time is given

std::vector<std::size_t> order_from(std::size_t first, std::size_t size, bool backwards) {
  std::vector<std::size_t> order{first};
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t at = backwards ? size - 1 - i : i;
    if (at != first) order.push_back(at);
  }
  return order;
}

// Plans of one number of levels.
struct Part {
  Part(Plan plan, const LossModel& loss, double step)
      : base(std::move(plan)), space(base, loss, step) {}
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  Part(Part&&) = delete;
  Part& operator=(Part&&) = delete;
  ~Part() = default;
  Plan base;
  DropSpace space;
};

// The fastest of `space` that lose at most `bound`, as the header says.
DropSteps fastest_within(DropSpace& space, double bound, std::vector<DropSteps> starts) {
  const std::size_t size = space.size();
  for (std::size_t first = 0; first < size; ++first) {
    for (const bool backwards : {false, true})
      starts.push_back(space.filled(space.none(), order_from(first, size, backwards), bound));
  }
  std::int32_t alike = space.most();
  while (alike > 0 && space.loss(DropSteps(size, alike)) > bound + 1e-9) --alike;
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  starts.push_back(space.filled(DropSteps(size, alike), order, bound));

  DropSteps best = space.none();
  for (const DropSteps& start : starts) {
    if (space.loss(start) <= bound + 1e-9 && space.time(start) < space.time(best) * kFaster)
      best = start;
  }
  const auto better = [&]() -> bool {
    DropSteps found = best;
    const auto consider = [&](const DropSteps& steps) {
      if (space.time(steps) < space.time(found) * kFaster) found = steps;
    };
    for (std::size_t at = 0; at < size; ++at) {
      for (std::int32_t by = 1; best[at] > 0; by = std::min(2 * by, best[at])) {
        const DropSteps lower = space.with(best, at, best[at] - by);
        if (by == best[at]) consider(lower);
        for (std::size_t other = 0; other < size; ++other) {
          if (other == at) continue;
          std::vector<std::size_t> others = order_from(other, size, false);
          std::erase(others, at);
          // To 0: for it to stay there, as what is not dropped at all needs no scores.
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

class Search {
 public:
  Search(const Request& request, const LossModel& loss, const DropBounds& bounds)
      : request_(request), loss_(&loss), bounds_(&bounds) {
    require(bounds.loss.has_value() != bounds.ttft_s.has_value(), "choose_drop: one bound");
    require(bounds.step > 0.0, "choose_drop: a step");
    request_.objective = Objective::ttft;
    request_.sparse.reset();
    loss.check_model(request.model);
    plan_without();
    plan_with();
  }

  std::variant<DropChoice, Infeasible> run(bool exhaustively) {
    if (parts_.empty() && !without_) return refusal_;
    const std::optional<DropCandidate> taken = exhaustively    ? best_of_all()
                                               : bounds_->loss ? fastest(*bounds_->loss)
                                                               : least_loss();
    if (!taken) return too_slow();
    DropChoice choice{
        .plan = plan_of(*taken), .taken = *taken, .dense = dense(), .evaluated = without_ ? 1 : 0};
    for (const Part& part : parts_)
      choice.evaluated += static_cast<std::int64_t>(part.space.times().size());
    return choice;
  }

 private:
  // The plan that has no levels: with nothing to choose, it loses nothing.
  void plan_without() {
    if (bounds_->levels) return;
    auto answer = make_plan(request_);
    if (auto* const no = std::get_if<Infeasible>(&answer)) {
      refusal_ = std::move(*no);
      return;
    }
    without_ = std::get<Plan>(std::move(answer));
    without_s_ = predicted_time(*without_, Objective::ttft, model::evaluate_analytic);
  }

  void plan_with() {
    const model::Cluster& cluster = request_.cluster;
    const model::DeviceIndex master = request_.master.empty() ? 0 : cluster.find(request_.master);
    std::int32_t first = 2;
    std::int32_t last = std::min(
        loss_->levels(),
        2 + static_cast<std::int32_t>(nested_groups(cluster, master, kMostLevels - 2).size()));
    if (bounds_->levels) first = last = *bounds_->levels;
    if (first > loss_->levels())
      throw Error(loss_->source + ": measured with up to " + std::to_string(loss_->levels()) +
                  " levels, not with " + std::to_string(first) + "; give '--levels " +
                  std::to_string(loss_->levels()) + "'");
    for (std::int32_t levels = first; levels <= last && cluster.size() > 1; ++levels) {
      request_.sparse = SparseRequest{.levels = levels, .drop = 0.0};
      if (std::optional<Plan> plan = fastest_shares())
        parts_.emplace_back(std::move(*plan), *loss_, bounds_->step);
    }
    request_.sparse.reset();
  }

  // Of the first token: make_plan takes those of the whole request, as new tokens need the parts.
  std::optional<Plan> fastest_shares() {
    std::vector<std::string> partitions{request_.partition};
    if (request_.partition == kAutoPartition) partitions = {"galaxy", "equal"};
    std::optional<Plan> best;
    double least = kNoBound;
    for (const std::string& partition : partitions) {
      Request request = request_;
      request.partition = partition;
      auto answer = make_plan(request);
      if (auto* const no = std::get_if<Infeasible>(&answer)) {
        refusal_ = std::move(*no);
        continue;
      }
      Plan& plan = std::get<Plan>(answer);
      const double seconds = predicted_time(plan, Objective::ttft, model::evaluate_analytic);
      if (seconds >= least * kFaster) continue;
      least = seconds;
      best = std::move(plan);
    }
    return best;
  }

  [[nodiscard]] std::optional<DropCandidate> without() const {
    if (!without_) return std::nullopt;
    return DropCandidate{.levels = 1, .loss = 0.0, .ttft_s = without_s_};
  }

  DropCandidate dense() {
    std::optional<DropCandidate> best = without();
    for (Part& part : parts_) {
      const DropCandidate one = part.space.candidate(part.space.none());
      if (!best || one.ttft_s < best->ttft_s * kFaster) best = one;
    }
    return *best;
  }

  // The fastest that lose at most `bound`.
  DropCandidate fastest(double bound) {
    DropCandidate best = dense();
    for (Part& part : parts_) {
      std::vector<DropSteps> starts;
      if (bounds_->ttft_s) starts = known_within(part.space, bound);
      const DropSteps steps = fastest_within(part.space, bound, std::move(starts));
      if (part.space.time(steps) < best.ttft_s * kFaster) best = part.space.candidate(steps);
    }
    if (least_.ttft_s == 0.0 || best.ttft_s < least_.ttft_s) least_ = best;
    return best;
  }

  // The fastest that is known so far: where a search for another loss ended, or came by.
  static std::vector<DropSteps> known_within(DropSpace& space, double bound) {
    const DropSteps* best = nullptr;
    double least = kNoBound;
    for (const auto& [steps, seconds] : space.times()) {
      if (seconds >= least || space.loss(steps) > bound) continue;
      least = seconds;
      best = &steps;
    }
    return best == nullptr ? std::vector<DropSteps>() : std::vector<DropSteps>{*best};
  }

  // Nothing if all take longer.
  std::optional<DropCandidate> least_loss() {
    const DropCandidate most = fastest(kNoBound);
    if (most.ttft_s > *bounds_->ttft_s) return std::nullopt;
    const DropCandidate none = fastest(0.0);
    if (none.ttft_s <= *bounds_->ttft_s) return none;
    double low = none.loss;
    double high = known_least()->loss;
    for (std::int32_t i = 0; i < kHalvings && low < high; ++i) {
      const double middle = low + (high - low) / 2.0;
      if (fastest(middle).ttft_s > *bounds_->ttft_s) low = middle;
      high = std::min(high, known_least()->loss);
    }
    for (Part& part : parts_) lower(part.space);
    return known_least();
  }

  // From what loses least within the time, each ratio as low as the time allows.
  void lower(DropSpace& space) {
    const std::optional<DropSteps> start = known_least(space);
    if (!start) return;
    DropSteps steps = *start;
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t at = 0; at < space.size(); ++at) {
        std::int32_t low = 0;
        std::int32_t high = steps[at];
        while (low < high) {
          const std::int32_t middle = low + (high - low) / 2;
          if (space.time(space.with(steps, at, middle)) <= *bounds_->ttft_s) {
            high = middle;
          } else {
            low = middle + 1;
          }
        }
        if (high == steps[at]) continue;
        steps = space.with(steps, at, high);
        changed = true;
      }
    }
  }

  [[nodiscard]] std::optional<DropSteps> known_least(const DropSpace& space) const {
    std::optional<DropSteps> best;
    double loss = kNoBound;
    double time = kNoBound;
    for (const auto& [steps, seconds] : space.times()) {
      if (seconds > *bounds_->ttft_s) continue;
      const double lost = space.loss(steps);
      if (lost > loss || (lost == loss && seconds >= time)) continue;
      best = steps;
      loss = lost;
      time = seconds;
    }
    return best;
  }

  // Of all whose time is known and within the bound, what loses least, of those the fastest.
  std::optional<DropCandidate> known_least() {
    std::optional<DropCandidate> best = without();
    if (best && best->ttft_s > *bounds_->ttft_s) best.reset();
    for (Part& part : parts_) {
      const std::optional<DropSteps> steps = known_least(part.space);
      if (!steps) continue;
      const DropCandidate one = part.space.candidate(*steps);
      if (!best || one.loss < best->loss || (one.loss == best->loss && one.ttft_s < best->ttft_s))
        best = one;
    }
    return best;
  }

  std::optional<DropCandidate> best_of_all() {
    for (Part& part : parts_) {
      DropSpace& space = part.space;
      DropSteps steps = space.none();
      const auto each = [&](const auto& self, std::size_t at) -> void {
        if (at == steps.size()) {
          static_cast<void>(space.time(steps));
          return;
        }
        for (std::int32_t i = space.least(steps, at); i <= space.most(); ++i) {
          steps[at] = i;
          self(self, at + 1);
        }
      };
      each(each, 0);
    }
    least_ = fastest_known(kNoBound);
    if (bounds_->loss) return fastest_known(*bounds_->loss);
    return known_least();
  }

  DropCandidate fastest_known(double bound) {
    DropCandidate best = dense();
    for (Part& part : parts_) {
      for (const auto& [steps, seconds] : part.space.times()) {
        if (part.space.loss(steps) <= bound + 1e-9 && seconds < best.ttft_s * kFaster)
          best = part.space.candidate(steps);
      }
    }
    return best;
  }

  Infeasible too_slow() const {
    return {"--max-ttft " + model::to_text(model::Seconds{*bounds_->ttft_s}) +
            ": the least time to the first token is " +
            model::to_text(model::Seconds{least_.ttft_s}) + " (" + text_of(least_, *loss_) +
            ", a loss of " + model::fixed(least_.loss, 4) +
            "), expected at least that; give it that time, fewer tokens or faster devices"};
  }

  Plan plan_of(const DropCandidate& taken) {
    if (taken.levels == 1) return *without_;
    for (const Part& part : parts_) {
      if (part.base.sparse->levels() != taken.levels) continue;
      Plan plan = part.base;
      for (std::size_t band = 0; band < taken.drop.size(); ++band) {
        for (std::int32_t layer = loss_->bands[band].begin; layer < loss_->bands[band].end; ++layer)
          plan.sparse->drop[static_cast<std::size_t>(layer)] = taken.drop[band];
      }
      const std::vector<model::MemoryUse> memory = predicted_memory(plan);
      for (std::size_t d = 0; d < plan.devices.size(); ++d) plan.devices[d].memory = memory[d];
      plan.validate();
      return plan;
    }
    throw std::logic_error("choose_drop: levels that were not planned");
  }

  Request request_;
  const LossModel* loss_;
  const DropBounds* bounds_;
  std::optional<Plan> without_{};
  double without_s_ = 0.0;
  std::deque<Part> parts_{};
  DropCandidate least_{};
  Infeasible refusal_{};
};

}  // namespace

std::variant<DropChoice, Infeasible> choose_drop(const Request& request, const LossModel& loss,
                                                 const DropBounds& bounds) {
  return Search(request, loss, bounds).run(false);
}

std::variant<DropChoice, Infeasible> choose_drop_exhaustively(const Request& request,
                                                              const LossModel& loss,
                                                              const DropBounds& bounds) {
  return Search(request, loss, bounds).run(true);
}

std::string text_of(const DropCandidate& candidate, const LossModel& loss) {
  if (candidate.levels == 1) return "no levels";
  std::string text = std::to_string(candidate.levels) + " levels";
  for (std::size_t band = 0; band < candidate.drop.size(); ++band) {
    const model::Range layers = loss.bands[band];
    text += std::string(", ") +
            (band > 0             ? ""
             : layers.size() == 1 ? "layer "
                                  : "layers ") +
            std::to_string(layers.begin) +
            (layers.size() == 1 ? "" : " to " + std::to_string(layers.end - 1));
    if (candidate.drop[band].back() == 0.0) {
      text += " nothing";
      continue;
    }
    text += " drop";
    for (const double part : candidate.drop[band]) text += " " + model::fixed(part, 2);
  }
  return text;
}

}  // namespace tandem::planner
