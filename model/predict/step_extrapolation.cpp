#include "model/predict/step_extrapolation.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>

#include "model/base/error.hpp"
#include "model/predict/analytic.hpp"

namespace tandem::model {

namespace {

constexpr std::int32_t kMaxPeriod = 4;
constexpr std::size_t kKept = std::size_t{2} * kMaxPeriod;  // evaluated steps
// Steps of one structure after which a longer period is tried.
constexpr std::int32_t kPatience = 6;

// Whether attention's cost is affine in the number of positions from `past` to `past + steps`: rows
// share no keys, and no limit of a task's keys lies within.
bool affine_costs(const TaskGraph& graph, std::int32_t steps) {
  for (const Segment& segment : graph.batch().segments) {
    if (segment.rows != 1) return false;
    const std::int64_t first = segment.past;
    const std::int64_t last = first + steps;
    const auto within = [&](std::int64_t limit) { return limit > first && limit <= last; };
    for (const Task& task : graph.tasks()) {
      if (task.kind != TaskKind::attend) continue;
      if (within(task.keys.begin) || within(task.keys.end) || within(task.window)) return false;
    }
  }
  return true;
}

double largest(const StepState& state) {
  double most = 0.0;
  for (const auto* values : {&state.free, &state.events}) {
    for (const double value : *values) most = std::max(most, std::abs(value));
  }
  return most;
}

// (1 - k) a + k b, entry by entry.
StepState on_line(const StepState& a, const StepState& b, double k) {
  StepState state = b;
  for (std::size_t i = 0; i < state.free.size(); ++i)
    state.free[i] += (k - 1.0) * (b.free[i] - a.free[i]);
  for (std::size_t i = 0; i < state.events.size(); ++i)
    state.events[i] += (k - 1.0) * (b.events[i] - a.events[i]);
  return state;
}

bool same(const StepState& a, const StepState& b, double tolerance) {
  const auto near = [tolerance](double x, double y) { return std::abs(x - y) <= tolerance; };
  return std::equal(a.free.begin(), a.free.end(), b.free.begin(), b.free.end(), near) &&
         std::equal(a.events.begin(), a.events.end(), b.events.begin(), b.events.end(), near);
}

class Extension {
 public:
  Extension(Steps& steps, StepEvaluator& evaluator,
            const std::function<void(const StepBlend&)>& blend)
      : steps_(steps), evaluator_(evaluator), blend_(blend) {}

  void run() {
    while (next_ < steps_.count()) {
      evaluate_next();
      if (std::optional<std::int32_t> skipped = jump()) next_ += *skipped;
    }
  }

 private:
  struct Evaluated {
    std::int32_t number = 0;
    StepState before;
    Decisions decisions;
    double length = 0.0;
    bool as_before = false;  // decides as the one a period before
  };

  const TaskGraph& graph(std::int32_t step) {
    const TaskGraph& graph = steps_.graph(step);
    if (graph.structure() != structure_) {
      structure_ = graph.structure();
      history_.clear();
      tried_ = 0;
      period_ = 1;
      wait_ = 0;
    }
    return graph;
  }

  [[nodiscard]] Evaluated& back(std::int32_t steps) {
    return history_[history_.size() - static_cast<std::size_t>(steps)];
  }

  // The steps that later blends may name begin with the oldest of the history.
  [[nodiscard]] std::int32_t keep_from() const {
    return history_.empty() ? number_ : history_.front().number;
  }

  void commit(const Evaluated& a, const Evaluated& b, double t) {
    blend_({.a = a.number,
            .b = b.number,
            .step = committed_++,
            .keep_from = keep_from(),
            .t = t,
            .base = base_});
    base_ += std::lerp(a.length, b.length, t);
  }

  void evaluate_next() {
    const TaskGraph& step = graph(next_);
    const bool comparable = history_.size() >= static_cast<std::size_t>(period_);
    Evaluated now{.number = number_++, .before = evaluator_.state(), .decisions = {}};
    const auto [length, as_before] = evaluator_.run(
        step, now.number, comparable ? &back(period_).decisions : nullptr, now.decisions);
    now.length = length;
    now.as_before = comparable && as_before;
    history_.push_back(std::move(now));
    commit(history_.back(), history_.back(), 0.0);
    while (history_.size() > kKept) history_.pop_front();
    ++next_;
    ++tried_;
  }

  // Whether the last two periods decided equally and the states before, between and after are on a
  // line.
  [[nodiscard]] bool settled() {
    if (history_.size() < 2 * static_cast<std::size_t>(period_)) return false;
    for (std::int32_t i = 1; i <= period_; ++i) {
      if (!back(i).as_before) return false;
    }
    const StepState& first = back(2 * period_).before;
    const StepState& second = back(period_).before;
    const StepState& third = evaluator_.state();
    if (first.free.size() != third.free.size() || first.events.size() != third.events.size())
      return false;
    const double tolerance = 4.0 * kTie * std::max(largest(third), back(1).length);
    return same(third, on_line(first, second, 2.0), tolerance);
  }

  // How many steps further the run is now, if a jump could be shown to be right.
  std::optional<std::int32_t> jump() {
    if (tried_ > kPatience && tried_ % kPatience == 0 && !settled()) {
      period_ = period_ % kMaxPeriod + 1;  // decisions are compared anew from the next step on
      for (Evaluated& each : history_) each.as_before = false;
      return std::nullopt;
    }
    if (wait_ > 0) {
      --wait_;
      return std::nullopt;
    }
    const std::int32_t left = steps_.count() - next_;
    if (left <= period_ || !settled()) return std::nullopt;
    const std::int32_t past_steps = left + 2 * period_;
    // `steps_` is asked for a graph of the structure to look at its attention.
    const TaskGraph& before = graph(next_ - 2 * period_);
    if (!affine_costs(before, past_steps)) {
      wait_ = left;
      return std::nullopt;
    }
    const StepState here = evaluator_.state();
    const StepState earlier = back(period_).before;
    for (std::int32_t periods = left / period_ - 1; periods >= 1; periods /= 2) {
      if (reaches(periods, earlier, here)) return (periods + 1) * period_;
      evaluator_.set_state(here);
    }
    wait_ = failures_ = std::min(2 * failures_ + 1, 16);
    return std::nullopt;
  }

  // Skips so many periods and evaluates the one after them, if that decides equally.
  bool reaches(std::int32_t periods, const StepState& earlier, const StepState& here) {
    evaluator_.set_state(on_line(earlier, here, 1.0 + periods));
    std::vector<Evaluated> far;
    for (std::int32_t i = 0; i < period_; ++i) {
      Evaluated& now = far.emplace_back();
      now.number = number_++;
      now.before = evaluator_.state();
      const auto [length, as_expected] =
          evaluator_.run(graph(next_ + periods * period_ + i), now.number,
                         &back(period_ - i).decisions, now.decisions);
      now.length = length;
      now.as_before = as_expected;
      if (!as_expected) return false;
    }
    for (std::int32_t k = 1; k <= periods + 1; ++k) {
      for (std::int32_t i = 0; i < period_; ++i) {
        commit(back(period_ - i), far[static_cast<std::size_t>(i)],
               static_cast<double>(k) / (periods + 1));
      }
    }
    // What comes before the jump is no longer what comes before the next step.
    history_.clear();
    for (Evaluated& each : far) {
      each.as_before = false;
      history_.push_back(std::move(each));
    }
    failures_ = 0;
    return true;
  }

  Steps& steps_;
  StepEvaluator& evaluator_;
  const std::function<void(const StepBlend&)>& blend_;
  std::shared_ptr<const char> structure_;
  std::deque<Evaluated> history_;  // of structure_, one step after the other
  std::int32_t next_ = 0;          // step
  std::int32_t committed_ = 0;     // steps
  std::int32_t number_ = 0;        // of the next evaluation
  std::int32_t period_ = 1;
  std::int32_t tried_ = 0;  // steps of structure_ evaluated one by one
  std::int32_t wait_ = 0;   // steps before the next jump is tried
  std::int32_t failures_ = 0;
  double base_ = 0.0;
};

}  // namespace

bool decide(const Program& program, const StepState& before, const StepTimes& times,
            const Decisions* expected, Decisions& made) {
  const auto size = static_cast<std::size_t>(program.size());
  made.start.resize(size);
  made.load.resize(size);
  made.stalls.resize(size);
  std::vector<double> free = before.free;
  double length = 0.0;
  for (const double done : times.done) length = std::max(length, done);
  const double tie = kTie * length;
  const auto value = [&](std::int32_t choice, double lane_free) {
    if (choice == Decisions::kLane) return lane_free;
    if (choice < 0) return before.events[static_cast<std::size_t>(-2 - choice)];
    return times.done[static_cast<std::size_t>(choice)];
  };
  bool as_expected = expected == nullptr || expected->start.size() == size;
  for (std::size_t i = 0; i < size; ++i) {
    const auto lane = static_cast<std::size_t>(times.lane[i]);
    if (free.size() <= lane) free.resize(lane + 1, 0.0);
    const double lane_free = free[lane];
    free[lane] = times.left[i];
    double start = lane_free;
    double loaded = 0.0;
    std::int32_t choice = Decisions::kLane;
    std::int32_t load = Decisions::kLane;
    for (const ActionIndex d : program.dependencies(static_cast<ActionIndex>(i))) {
      const double done = times.done[static_cast<std::size_t>(d)];
      if (program.actions()[static_cast<std::size_t>(d)].kind == TaskKind::load) {
        if (load < 0 || done > loaded) {
          loaded = done;
          load = d;
        }
      } else if (done > start) {
        start = done;
        choice = d;
      }
    }
    for (const std::int32_t event : program.awaited_events(static_cast<ActionIndex>(i))) {
      if (static_cast<std::size_t>(event) >= before.events.size()) continue;
      if (const double done = before.events[static_cast<std::size_t>(event)]; done > start) {
        start = done;
        choice = -2 - event;
      }
    }
    made.start[i] = choice;
    made.load[i] = load;
    made.stalls[i] = load >= 0 && loaded > start;
    if (!as_expected || expected == nullptr) continue;
    as_expected = value(expected->start[i], lane_free) >= start - tie;
    if (load < 0) continue;
    as_expected = as_expected && value(expected->load[i], lane_free) >= loaded - tie &&
                  (expected->stalls[i] ? loaded >= start - tie : loaded <= start + tie);
  }
  return as_expected;
}

double end_step(const Program& program, const StepTimes& times, StepState& state) {
  std::size_t last = times.done.size();
  for (std::size_t i = 0; i < times.done.size(); ++i) {
    if (program.actions()[i].kind == TaskKind::sample) last = i;
  }
  if (last == times.done.size() && last > 0) --last;
  const double length = times.done.empty() ? 0.0 : times.done[last];
  std::vector<bool> used(state.free.size(), false);
  for (const std::int32_t lane : times.lane) used[static_cast<std::size_t>(lane)] = true;
  for (std::size_t lane = 0; lane < state.free.size(); ++lane) {
    state.free[lane] -= length;
    if (!used[lane]) state.free[lane] = std::max(state.free[lane], 0.0);
  }
  for (double& event : state.events) event -= length;
  return length;
}

void evaluate_extrapolated(Steps& steps, StepEvaluator& evaluator,
                           const std::function<void(const StepBlend&)>& blend) {
  Extension(steps, evaluator, blend).run();
}

void BlendRecorder::record(std::span<const Span> spans) {
  for (const Span& span : spans) {
    RunRecorder& step = evaluated_.try_emplace(span.step, *cluster_, master_, false).first->second;
    Span first = span;
    first.step = 0;
    step.record(first);
  }
}

void BlendRecorder::add(const StepBlend& blend) {
  evaluated_.erase(evaluated_.begin(), evaluated_.lower_bound(std::min(blend.keep_from, blend.a)));
  const auto a = evaluated_.find(blend.a);
  const auto b = evaluated_.find(blend.b);
  // A step without tasks has no spans.
  if (a == evaluated_.end() || b == evaluated_.end()) return;
  run_->add_between(a->second, b->second, blend.t, blend.step, blend.base);
}

}  // namespace tandem::model
