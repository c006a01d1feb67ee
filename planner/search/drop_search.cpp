#include "planner/search/drop_search.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "planner/collective/proximity.hpp"
#include "planner/memory/plan_storage.hpp"
#include "planner/partition/exact/time_order.hpp"
#include "planner/search/affordable_types.hpp"
#include "planner/search/drop_space.hpp"
#include "planner/search/objective.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();
constexpr std::int32_t kLossHalvings = 10;  // of the loss, where a time is given
constexpr std::int32_t kThorough = 3;       // searches after that, for what loses a little less
constexpr double kLess = 1.0 - 1e-2;
constexpr std::int32_t kCorrections = 6;
constexpr double kClose = 0.99;

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

// Returns, of all evaluated points in `space` that lose at most `bound`, the fastest; ties: the
// least loss.
DropSteps known_fastest(const DropSpace& space, double bound) {
  DropSteps best = space.none();
  double least = kNoBound;
  double loss = 0.0;
  for (const auto& [steps, seconds] : space.times()) {
    const double lost = space.loss(steps);
    if (lost > bound + 1e-9 || seconds * kBetter > least) continue;
    if (seconds >= least * kBetter && lost >= loss) continue;
    least = seconds;
    loss = lost;
    best = steps;
  }
  return best;
}

// Returns, of the points within `bound` seconds, the least loss; ties: the fastest.
std::optional<DropSteps> known_least(const DropSpace& space, double bound) {
  std::optional<DropSteps> best;
  double loss = kNoBound;
  double time = kNoBound;
  for (const auto& [steps, seconds] : space.times()) {
    if (seconds > bound) continue;
    const double lost = space.loss(steps);
    if (lost > loss || (lost == loss && seconds >= time)) continue;
    best = steps;
    loss = lost;
    time = seconds;
  }
  return best;
}

// From `steps`, each ratio as low as `bound` seconds allow.
DropSteps lowered(DropSpace& space, DropSteps steps, double bound) {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t at = 0; at < space.size(); ++at) {
      std::int32_t low = 0;
      std::int32_t high = steps[at];
      while (low < high) {
        const std::int32_t middle = low + (high - low) / 2;
        if (space.time(space.with(steps, at, middle)) <= bound) {
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
  return steps;
}

// Returns the point of least loss in `space` within `bound` seconds, if there is one that loses
// less than `most`.
std::optional<DropSteps> least_loss(DropSpace& space, double bound, double most) {
  // Returns whether a point with so much loss is within the time.
  const auto found = [&](double loss, bool thorough) {
    const DropSteps steps = fastest_within(space, loss, {known_fastest(space, loss)}, thorough);
    return std::min(space.time(steps), space.time(space.none())) <= bound;
  };
  if (!found(most, true)) return std::nullopt;
  if (!found(0.0, true)) {
    double low = 0.0;
    const auto high = [&] { return space.loss(known_least(space, bound).value()); };
    for (std::int32_t i = 0; i < kLossHalvings; ++i) {
      const double middle = low + (high() - low) / 2.0;
      if (!found(middle, false)) low = middle;
    }
    static_cast<void>(lowered(space, known_least(space, bound).value(), bound));
    // With all that a search begins with.
    for (std::int32_t i = 0; i < kThorough && found(high() * kLess, true); ++i) {
    }
  }
  return known_least(space, bound);
}

class RatioSearch {
 public:
  RatioSearch(const Request& request, const LossModel& loss, const DropBounds& bounds,
              bool exhaustive)
      : request_(request), loss_(&loss), bounds_(&bounds), exhaustive_(exhaustive) {
    require(bounds.loss.has_value() != bounds.ttft_s.has_value(), "choose_drop: one bound");
    require(bounds.step > 0.0, "choose_drop: a step");
    if (!find_strategy(request.strategy).sharding.measures_losses())
      throw Error("levels and ratios by loss (--max-loss, --max-ttft): strategy '" +
                  request.strategy + "', expected " + strategies_that(&Sharding::measures_losses) +
                  ", in whose order of rows losses are measured; give '--levels' and '--drop' "
                  "instead");
    request_.objective = Objective::ttft;
    request_.sparse.reset();
    loss.check_model(request.model);
    plan_without();
    plan_with();
  }

  std::variant<DropChoice, Infeasible> run() && {
    if (parts_.empty() && !without_) return std::move(refusal_);
    for (Part& part : parts_) {
      if (exhaustive_) part.space.time_all();
    }
    const DropCandidate taken = bounds_->loss ? fastest(*bounds_->loss) : within(*bounds_->ttft_s);
    if (bounds_->ttft_s && taken.checked_s > *bounds_->ttft_s) return too_slow(taken);
    DropChoice choice{
        .plan = plan_of(taken), .taken = taken, .dense = first(dense()), .evaluated = 0};
    if (without_) ++choice.evaluated;
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
    } else {
      without_ = std::get<Plan>(std::move(answer));
    }
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

  // For the first token: make_plan uses the shares of the whole request, as new tokens need the
  // parts.
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
      if (seconds >= least * kBetter) continue;
      least = seconds;
      best = std::move(plan);
    }
    return best;
  }

  // With its time by the request's evaluator, which may know of shared links.
  DropCandidate checked(DropCandidate candidate) {
    candidate.checked_s = predicted_time(plan_of(candidate), Objective::ttft, request_.evaluate);
    return candidate;
  }

  // The fastest, of equal times what loses least.
  static DropCandidate first(const std::vector<DropCandidate>& candidates) {
    const DropCandidate* best = &candidates.front();
    for (const DropCandidate& one : candidates) {
      const bool faster = one.checked_s < best->checked_s * kBetter;
      const bool equal = one.checked_s * kBetter <= best->checked_s;
      if (faster || (equal && one.loss < best->loss)) best = &one;
    }
    return *best;
  }

  // With nothing dropped.
  const std::vector<DropCandidate>& dense() {
    if (!dense_.empty()) return dense_;
    if (without_) {
      dense_.push_back(checked(
          {.ttft_s = predicted_time(*without_, Objective::ttft, model::evaluate_analytic)}));
    }
    for (Part& part : parts_) dense_.push_back(checked(part.space.candidate(part.space.none())));
    return dense_;
  }

  // Returns the fastest candidate that loses at most `bound`: for each number of levels by the
  // analytic evaluator, as found and with the drops that cost nothing removed; among these and the
  // candidates without drops by the request's evaluator.
  DropCandidate fastest(double bound) {
    std::vector<DropCandidate> found = dense();
    for (Part& part : parts_) {
      DropSpace& space = part.space;
      const DropSteps steps =
          exhaustive_ ? known_fastest(space, bound) : fastest_within(space, bound, {}, true);
      found.push_back(checked(space.candidate(steps)));
      if (!exhaustive_)
        found.push_back(
            checked(space.candidate(lowered(space, steps, space.time(steps) / kBetter))));
    }
    return first(found);
  }

  // Returns the candidate of least loss within `time`, or the fastest if there is none. If the
  // request's evaluator finds a longer time than the analytic one, the limit is lowered in
  // proportion.
  DropCandidate within(double time) {
    std::optional<DropCandidate> best;
    const auto take = [&](const DropCandidate& one) {
      if (one.checked_s > time) return;
      if (!best || one.loss < best->loss ||
          (one.loss == best->loss && one.checked_s < best->checked_s * kBetter))
        best = one;
    };
    for (const DropCandidate& one : dense()) take(one);
    DropCandidate least = fastest(kNoBound);
    if (least.checked_s > time) return least;
    take(least);
    for (Part& part : parts_) {
      // By the analytic evaluator: up to `enough` the result is within `time` or loses too much,
      // from `much` on it is not.
      double bound = time;
      double enough = 0.0;
      double much = kNoBound;
      for (std::int32_t i = 0; i < kCorrections && enough < much * kClose; ++i) {
        const std::optional<DropSteps> steps =
            exhaustive_ ? known_least(part.space, bound)
                        : least_loss(part.space, bound, best ? best->loss : kNoBound);
        std::optional<DropCandidate> one;
        if (steps) one = checked(part.space.candidate(*steps));
        if (one) take(*one);
        if (one && one->checked_s > time) {
          much = std::min(bound, one->ttft_s);
          bound = enough == 0.0 ? much * time / one->checked_s * kBetter : (enough + much) / 2.0;
        } else {
          if (much == kNoBound) break;
          enough = bound;
          bound = (enough + much) / 2.0;
        }
      }
    }
    return *best;
  }

  [[nodiscard]] Infeasible too_slow(const DropCandidate& least) const {
    return {"--max-ttft " + model::to_text(model::Seconds{*bounds_->ttft_s}) +
            ": the least time to the first token is " +
            model::to_text(model::Seconds{least.checked_s}) + " (" + describe(least, *loss_) +
            ", a loss of " + model::fixed(least.loss, 4) +
            "), expected at least that; give it that time, fewer tokens or faster devices"};
  }

  Plan plan_of(const DropCandidate& taken) {
    if (taken.levels == 1) return *without_;
    for (const Part& part : parts_) {
      if (part.base.sparse->levels() != taken.levels) continue;
      Plan plan = with_predicted_memory(part.space.plan(taken.drop));
      plan.validate();
      return plan;
    }
    throw std::logic_error("choose_drop: levels that were not planned");
  }

  Request request_;
  const LossModel* loss_;
  const DropBounds* bounds_;
  bool exhaustive_;
  std::optional<Plan> without_{};
  std::deque<Part> parts_{};
  std::vector<DropCandidate> dense_{};
  Infeasible refusal_{};
};

}  // namespace

std::variant<DropChoice, Infeasible> choose_drop(const Request& request, const LossModel& loss,
                                                 const DropBounds& bounds) {
  std::optional<DropChoice> best;
  double best_loss = 0.0;  // of types and dropping
  std::int64_t evaluated = 0;
  Infeasible none;
  for (const Request& one : with_affordable_types(request)) {
    const double types = one.budget ? losses_of(one).total() : 0.0;
    DropBounds left = bounds;
    if (left.loss) left.loss = std::max(0.0, *left.loss - types);
    auto found = RatioSearch(one, loss, left, false).run();
    if (auto* const no = std::get_if<Infeasible>(&found)) {
      none = std::move(*no);
      continue;
    }
    auto& choice = std::get<DropChoice>(found);
    evaluated += choice.evaluated;
    const double lost = types + choice.taken.loss;
    const double seconds = choice.taken.checked_s;
    const bool faster = !best || seconds < best->taken.checked_s * kBetter;
    if (!faster && (seconds * kBetter > best->taken.checked_s || lost >= best_loss)) continue;
    best = std::move(choice);
    best_loss = lost;
  }
  if (!best) return none;
  best->evaluated = evaluated;
  return *std::move(best);
}

std::variant<DropChoice, Infeasible> choose_drop_exhaustively(const Request& request,
                                                              const LossModel& loss,
                                                              const DropBounds& bounds) {
  return RatioSearch(request, loss, bounds, true).run();
}

std::string describe(const DropCandidate& candidate, const LossModel& loss) {
  if (candidate.levels == 1) return "no levels";
  std::string text = std::to_string(candidate.levels) + " levels";
  const auto drops = [](const std::vector<double>& by_level) { return by_level.back() > 0.0; };
  if (std::ranges::none_of(candidate.drop, drops)) return text + ", nothing dropped";
  for (std::size_t band = 0; band < candidate.drop.size(); ++band) {
    const model::Range layers = loss.bands[band];
    text += std::string(", ") +
            (band > 0             ? ""
             : layers.size() == 1 ? "layer "
                                  : "layers ") +
            std::to_string(layers.begin) +
            (layers.size() == 1 ? "" : " to " + std::to_string(layers.end - 1));
    if (!drops(candidate.drop[band])) {
      text += " nothing";
      continue;
    }
    text += layers.size() == 1 ? " drops" : " drop";
    for (const double part : candidate.drop[band]) text += " " + model::fixed(part, 2);
  }
  return text;
}

}  // namespace tandem::planner
