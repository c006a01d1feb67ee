#include "exec/profiling/profile_steps.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <thread>

#include "exec/profiling/profile_fit.hpp"
#include "model/predict/cost_model.hpp"

namespace tandem::exec {
namespace {

using model::TaskKind;

using Clock = std::chrono::steady_clock;

struct Step {
  std::int32_t rows = 1;
  std::int32_t past = 0;
};

// Weights that some cache may hold from one token to the next.
constexpr double kCached = 64.0 * 1024 * 1024;

// After so long, weights of some MiB are read at about half their rate (decision 0017).
constexpr std::chrono::milliseconds kPause{25};

// Two sizes of everything, so that a task's overhead is distinguished from its cost a byte.
constexpr std::array kFractions{1.0, 0.25};

class StepMeasurement {
 public:
  StepMeasurement(const model::Transformer& transformer, const StepOptions& options)
      : deadline_(options.deadline),
        check_(options.check),
        clock_(options.threads),
        rests_(options.stream_bytes <= kCached) {
    std::int32_t max_rows = std::ranges::max(options.rows);
    for (const std::int32_t rows : options.finer) max_rows = std::max(max_rows, rows);
    const auto context =
        static_cast<std::int32_t>(std::min<std::int64_t>(transformer.max_context, 1024));
    for (std::int32_t past = 15; past < context; past = past * 4 + 3) steps_.push_back({1, past});
    if (steps_.empty()) steps_.push_back({1, 0});
    const std::int32_t max_positions = std::max(max_rows, steps_.back().past + 1);
    for (const double fraction : kFractions) {
      parts_.emplace_back(transformer, fraction,
                          ProfilePart::Sizes{.layer_bytes = options.stream_bytes,
                                             .max_rows = max_rows,
                                             .max_positions = max_positions,
                                             .threads = options.threads,
                                             .kernels = options.kernels});
    }
  }

  MeasuredSteps measured(const StepOptions& options) {
    // Code, pages and threads are there before anything counts.
    ProfileLog warm_up;
    run({kNewTokenRows, 0}, warm_up);
    refer();
    for (const Step& step : steps_) run(step, measured_.log);
    for (std::size_t i = 0; i < options.rows.size(); ++i) {
      const std::int32_t rows = options.rows[i];
      if (i > 1 && !has_time(growth(options.rows[i - 1], rows) * last_s_)) {
        measured_.left_out = rows;
        break;
      }
      HeldOut errors = add({rows, 0});
      // A single token tells nothing of how rows share the reading of weights.
      if (i > 0) measured_.held_out = std::move(errors);
    }
    if (measured_.left_out == 0) refine(options.finer);
    // Rounds over everything, so that a machine that drifts drifts for all sizes.
    while (has_time(round_s())) {
      for (const Step& step : steps_) run(step, measured_.log);
    }
    for (std::size_t i = 0; i < steps_.size() && has_time(seconds_of(steps_[i])); ++i)
      run(steps_[i], measured_.log);
    refer();
    return std::move(measured_);
  }

 private:
  static double growth(std::int32_t before, std::int32_t rows) {
    return static_cast<double>(rows) / before;
  }
  [[nodiscard]] bool has_time(double seconds) const {
    return Clock::now() + std::chrono::duration<double>(seconds) < deadline_;
  }
  [[nodiscard]] double seconds_of(const Step& step) const {
    const auto found = seconds_.find({step.rows, step.past});
    return found == seconds_.end() ? 0.0 : found->second;
  }
  [[nodiscard]] double round_s() const {
    double sum = 0.0;
    for (const Step& step : steps_) sum += seconds_of(step);
    return sum;
  }

  // Returns how far off the fit to all before was.
  HeldOut add(const Step& step) {
    ProfileLog measured;
    run(step, measured);
    HeldOut errors;
    add_errors(measured_.log, measured, errors);
    measured_.log.add(measured);
    steps_.push_back(step);
    return errors;
  }

  void refer() {
    measured_.reference_s.push_back(parts_.back().reference_s(clock_));
    referred_ = Clock::now();
  }

  void run(const Step& step, ProfileLog& log) {
    if (check_) check_();
    constexpr std::chrono::milliseconds kBetween{250};
    if (Clock::now() - referred_ > kBetween && !measured_.reference_s.empty()) refer();
    log.begin_moment();
    const Clock::time_point start = Clock::now();
    for (ProfilePart& part : parts_) {
      // New tokens, of one sequence or some, follow others, whose weights the caches still hold if
      // they can. A prompt follows a pause, after which they may not: where a machine is shared,
      // others took them.
      ProfileLog before;
      if (rests_ && step.rows <= kNewTokenRows) part.step(step.rows, step.past, clock_, before);
      if (rests_ && step.rows > kNewTokenRows) std::this_thread::sleep_for(kPause);
      part.step(step.rows, step.past, clock_, log);
    }
    last_s_ = std::chrono::duration<double>(Clock::now() - start).count();
    seconds_[{step.rows, step.past}] = last_s_;
  }

  // How far the fit to what is logged is off for `held_out`, of the sum of all its times.
  [[nodiscard]] double error_on(const ProfileLog& held_out) const {
    constexpr std::array kKinds{TaskKind::project_qkv, TaskKind::attend, TaskKind::project_out,
                                TaskKind::ffn_up, TaskKind::ffn_down};
    double measured = 0.0;
    double predicted = 0.0;
    for (const TaskKind kind : kKinds) {
      const model::KindRate rate = fit_rate(measured_.log.samples(kind));
      for (const ProfileSample& sample : held_out.samples(kind)) {
        measured += sample.seconds;
        predicted += model::task_seconds(rate, sample.streamed_bytes, sample.intensity);
      }
    }
    return std::abs(predicted / measured - 1.0);
  }

  void refine(std::span<const std::int32_t> finer) {
    constexpr double kGood = 0.05;
    // Measured rows, and how far off the fit was within the gap up to the next.
    std::map<std::int32_t, double> gaps;
    for (const Step& step : steps_) gaps[step.rows] = std::numeric_limits<double>::infinity();
    bool refined = false;
    while (true) {
      std::optional<std::int32_t> next;
      double worst = kGood;
      for (auto low = gaps.begin(); std::next(low) != gaps.end(); ++low) {
        if (low->second <= worst) continue;
        if (const auto middle = middle_of(finer, low->first, std::next(low)->first)) {
          worst = low->second;
          next = middle;
        }
      }
      // Never longer than the largest that was measured.
      if (!next || !has_time(seconds_of({gaps.rbegin()->first, 0}))) return;
      ProfileLog held_out;
      run({*next, 0}, held_out);
      const double error = error_on(held_out);
      if (!refined) measured_.held_out = {};
      refined = true;
      add_errors(measured_.log, held_out, measured_.held_out);
      measured_.log.add(held_out);
      steps_.push_back({*next, 0});
      std::prev(gaps.upper_bound(*next))->second = error;
      gaps[*next] = error;
    }
  }

  // Of `finer` the one between both ends that is nearest their geometric mean.
  static std::optional<std::int32_t> middle_of(std::span<const std::int32_t> finer,
                                               std::int32_t low, std::int32_t high) {
    const double middle = std::sqrt(static_cast<double>(low) * high);
    std::optional<std::int32_t> best;
    double least = std::numeric_limits<double>::infinity();
    for (const std::int32_t rows : finer) {
      if (rows <= low || rows >= high) continue;
      const double distance = std::abs(std::log(rows / middle));
      if (distance >= least) continue;
      least = distance;
      best = rows;
    }
    return best;
  }

  Clock::time_point deadline_;
  std::function<void()> check_;
  ProfileClock clock_;
  bool rests_;  // a run's weights may stay in caches between its tokens
  std::vector<ProfilePart> parts_{};
  std::vector<Step> steps_{};
  MeasuredSteps measured_{};
  Clock::time_point referred_{};  // when the reference was measured last
  std::map<std::pair<std::int32_t, std::int32_t>, double> seconds_{};  // of a step, by its size
  double last_s_ = 0.0;
};

}  // namespace

MeasuredSteps measure_steps(const model::Transformer& transformer, const StepOptions& options) {
  return StepMeasurement(transformer, options).measured(options);
}

}  // namespace tandem::exec
