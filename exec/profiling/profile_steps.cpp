#include "exec/profiling/profile_steps.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <compare>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>

#include "exec/machine/available_memory.hpp"
#include "exec/profiling/profile_fit.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/predict/cost_model.hpp"

namespace tandem::exec {
namespace {

using model::TaskKind;

using Clock = std::chrono::steady_clock;

struct Step {
  std::int32_t rows = 1;
  std::int32_t past = 0;
  auto operator<=>(const Step&) const = default;
};

// Weights that some cache may hold from one token to the next.
constexpr double kCached = 64.0 * 1024 * 1024;

// After so long, weights of some MiB are read at about half their rate (decision 0017).
constexpr std::chrono::milliseconds kPause{25};

// Two sizes of everything, so that a task's overhead is distinguished from its cost a byte.
constexpr std::array kFractions{1.0, 0.25};

// A new size may take this part of all the time that is left for its number of threads.
constexpr double kPartOfRest = 0.4;

// More moments of a size in one visit say nothing new.
constexpr int kMostMoments = 200;

// Of the memory that is available, what a profile uses at most.
constexpr double kPartOfMemory = 0.75;

double seconds_until(Clock::time_point end) {
  return std::chrono::duration<double>(end - Clock::now()).count();
}

Clock::time_point in_seconds(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::max(0.0, seconds)));
}

// Of `finer` the one between both ends that is nearest their geometric mean.
std::optional<std::int32_t> middle_of(std::span<const std::int32_t> finer, std::int32_t low,
                                      std::int32_t high) {
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

// How far the fit to `log` is off for `held_out`, of the sum of all its times.
double error_on(const ProfileLog& log, const ProfileLog& held_out) {
  constexpr std::array kKinds{TaskKind::project_qkv, TaskKind::attend, TaskKind::project_out,
                              TaskKind::ffn_up, TaskKind::ffn_down};
  double measured = 0.0;
  double predicted = 0.0;
  for (const TaskKind kind : kKinds) {
    const model::KindRate rate = fit_rate(log.samples(kind));
    for (const ProfileSample& sample : held_out.samples(kind)) {
      measured += sample.seconds;
      predicted += model::task_seconds(rate, sample.streamed_bytes, sample.intensity);
    }
  }
  return std::abs(predicted / measured - 1.0);
}

// What was measured with one number of threads.
class OfThreads {
 public:
  OfThreads(const StepOptions& options, int threads, std::vector<Step> tokens, bool rests)
      : options_(&options), threads_(threads), tokens_(std::move(tokens)), rests_(rests) {}

  void visit(std::vector<ProfilePart>& parts, Clock::time_point deadline, double later_s) {
    parts_ = &parts;
    deadline_ = deadline;
    later_s_ = later_s;
    clock_.emplace(threads_);
    for (auto& [step, of] : sizes_) of.in_visit = 0;
    for (ProfilePart& part : parts) part.set_threads(threads_);
    // Code, pages and threads are there before anything counts.
    ProfileLog warm_up;
    run({kNewTokenRows, 0}, warm_up);
    refer();
    if (sizes_.empty()) {
      for (const Step& step : tokens_) measure(step);
      for (std::size_t i = 0; i < std::min<std::size_t>(2, options_->rows.size()); ++i)
        measure({options_->rows[i], 0});
    }
    add_rows();
    // Every size once before others are added, so that the last visits have them all.
    repeat(1);
    if (!next_rows()) refine();
    repeat(kMostMoments);
    refer();
  }

  [[nodiscard]] MeasuredSteps measured() const {
    MeasuredSteps all;
    all.log = log_but();
    all.reference_s = reference_s_;
    const std::optional<std::int32_t> next = next_rows();
    if (next)
      all.left_out = "for lack of time no prompts of " + std::to_string(*next) + " tokens or more";
    std::set<std::int32_t> held_out = refined_;
    if (held_out.empty()) held_out.insert(sizes_.rbegin()->first.rows);
    for (const std::int32_t rows : held_out) {
      const Step step{rows, 0};
      add_errors(log_but(step), sizes_.at(step).log, all.held_out);
    }
    return all;
  }

 private:
  struct OfStep {
    ProfileLog log;
    int in_visit = 0;  // measurements
    int in_all = 0;
    double seconds = 0.0;  // of the last one
  };

  // Of everything but `left_out`.
  [[nodiscard]] ProfileLog log_but(std::optional<Step> left_out = {}) const {
    ProfileLog all;
    for (const auto& [step, of] : sizes_) {
      if (step != left_out) all.add(of.log);
    }
    return all;
  }

  // The first of `rows` that was not measured.
  [[nodiscard]] std::optional<std::int32_t> next_rows() const {
    for (const std::int32_t rows : options_->rows) {
      if (!sizes_.contains({rows, 0})) return rows;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool has_time(double seconds) const { return seconds < seconds_until(deadline_); }
  // Whether there is time for what was never measured, if need be of later visits.
  [[nodiscard]] bool has_time_for_new(double seconds) const {
    return has_time(seconds) || seconds < kPartOfRest * (seconds_until(deadline_) + later_s_);
  }

  void add_rows() {
    for (std::size_t i = 2; i < options_->rows.size(); ++i) {
      const std::int32_t rows = options_->rows[i];
      if (sizes_.contains({rows, 0})) continue;
      const std::int32_t before = options_->rows[i - 1];
      const double growth = static_cast<double>(rows) / before;
      if (!has_time_for_new(growth * sizes_.at({before, 0}).seconds)) return;
      measure({rows, 0});
    }
  }

  // Measures what has been measured least, up to `most` times in this visit, while time lasts.
  void repeat(int most) {
    while (true) {
      std::optional<Step> next;
      std::pair<int, int> least{most, 0};
      for (const auto& [step, of] : sizes_) {
        const std::pair<int, int> count{of.in_visit, of.in_all};
        if (of.in_visit >= most || (next && count >= least) || !has_time(of.seconds)) continue;
        next = step;
        least = count;
      }
      if (!next) return;
      measure(*next);
    }
  }

  void refine() {
    constexpr double kGood = 0.05;
    if (gaps_.empty()) {
      for (const auto& [step, of] : sizes_)
        gaps_[step.rows] = std::numeric_limits<double>::infinity();
    }
    while (true) {
      std::optional<std::int32_t> next;
      double worst = kGood;
      for (auto low = gaps_.begin(); std::next(low) != gaps_.end(); ++low) {
        if (low->second <= worst) continue;
        if (const auto middle = middle_of(options_->finer, low->first, std::next(low)->first)) {
          worst = low->second;
          next = middle;
        }
      }
      // Never longer than the next larger one.
      if (!next || !has_time(sizes_.at({gaps_.upper_bound(*next)->first, 0}).seconds)) return;
      const ProfileLog others = log_but();
      measure({*next, 0});
      const double error = error_on(others, sizes_.at({*next, 0}).log);
      refined_.insert(*next);
      std::prev(gaps_.upper_bound(*next))->second = error;
      gaps_[*next] = error;
    }
  }

  void refer() {
    reference_s_.push_back(parts_->back().reference_s(*clock_));
    referred_ = Clock::now();
  }

  void measure(const Step& step) {
    constexpr std::chrono::milliseconds kBetween{250};
    if (Clock::now() - referred_ > kBetween) refer();
    OfStep& of = sizes_[step];
    of.seconds = run(step, of.log);
    ++of.in_visit;
    ++of.in_all;
  }

  double run(const Step& step, ProfileLog& log) {
    if (options_->check) options_->check();
    log.begin_moment();
    const Clock::time_point start = Clock::now();
    for (ProfilePart& part : *parts_) {
      // New tokens, of one sequence or some, follow others, whose weights the caches still hold if
      // they can. A prompt follows a pause, after which they may not: where a machine is shared,
      // others took them.
      ProfileLog before;
      if (rests_ && step.rows <= kNewTokenRows) part.step(step.rows, step.past, *clock_, before);
      if (rests_ && step.rows > kNewTokenRows) std::this_thread::sleep_for(kPause);
      part.step(step.rows, step.past, *clock_, log);
    }
    return -seconds_until(start);
  }

  const StepOptions* options_;
  int threads_;
  std::vector<Step> tokens_;
  bool rests_;  // a run's weights may stay in caches between its tokens
  std::map<Step, OfStep> sizes_{};
  std::map<std::int32_t, double> gaps_{};  // rows, and how far off the fit was up to the next
  std::set<std::int32_t> refined_{};       // rows of `finer` that were measured
  std::vector<double> reference_s_{};
  // Of the visit:
  std::vector<ProfilePart>* parts_ = nullptr;
  std::optional<ProfileClock> clock_{};
  Clock::time_point deadline_{};
  double later_s_ = 0.0;          // of the visits to come
  Clock::time_point referred_{};  // when the reference was measured last
};

}  // namespace

struct StepMeasurement::State {
  model::Transformer transformer;
  StepOptions options;
  ProfilePart::Sizes sizes{};
  std::string lacks_memory{};  // for which prompts
  std::vector<OfThreads> of_threads{};
  double making_s = 0.0;

  // The largest prompts that memory allows.
  void fit_memory() {
    const AvailableMemory available = available_memory();
    const std::int32_t of_tokens = sizes.max_positions;
    while (true) {
      sizes.max_rows = std::max(kNewTokenRows, std::ranges::max(options.rows));
      for (const std::int32_t rows : options.finer) sizes.max_rows = std::max(sizes.max_rows, rows);
      sizes.max_positions = std::max(of_tokens, sizes.max_rows);
      double bytes = 0.0;
      for (const double fraction : kFractions)
        bytes += ProfilePart::memory_bytes(transformer, fraction, sizes);
      if (bytes <= kPartOfMemory * available.bytes) return;
      if (options.rows.size() <= 2) {
        throw Error("profile of '" + transformer.name + "': needs " +
                    to_text(model::Bytes{bytes / kPartOfMemory}) + " of memory, expected at most " +
                    to_text(model::Bytes{available.bytes}) + ", which " + available.bound +
                    " allows; end other programs, or name a smaller model with '--model'");
      }
      const std::int32_t left_out = options.rows.back();
      lacks_memory =
          "for lack of memory no prompts of " + std::to_string(left_out) + " tokens or more";
      options.rows.pop_back();
      std::erase_if(options.finer, [&](std::int32_t rows) { return rows > options.rows.back(); });
    }
  }
};

StepMeasurement::StepMeasurement(const model::Transformer& transformer, StepOptions options)
    : state_(std::make_unique<State>(
          State{.transformer = transformer, .options = std::move(options)})) {
  State& state = *state_;
  const auto context =
      static_cast<std::int32_t>(std::min<std::int64_t>(transformer.max_context, 1024));
  std::vector<Step> tokens;
  for (std::int32_t past = 15; past < context; past = past * 4 + 3) tokens.push_back({1, past});
  if (tokens.empty()) tokens.push_back({1, 0});
  const bool rests = state.options.stream_bytes <= kCached;
  // The weights of one size displace those of the other.
  const double parts = rests ? 1.0 : static_cast<double>(kFractions.size());
  state.sizes = {.layer_bytes = state.options.stream_bytes / parts,
                 .max_positions = tokens.back().past + 1,
                 .kernels = state.options.kernels};
  state.fit_memory();
  for (const int threads : state.options.threads)
    state.of_threads.emplace_back(state.options, threads, tokens, rests);
}

StepMeasurement::~StepMeasurement() = default;
StepMeasurement::StepMeasurement(StepMeasurement&&) noexcept = default;
StepMeasurement& StepMeasurement::operator=(StepMeasurement&&) noexcept = default;

void StepMeasurement::visit(double seconds, int more) {
  const Clock::time_point start = Clock::now();
  const Clock::time_point end = in_seconds(seconds);
  std::vector<ProfilePart> parts;
  parts.reserve(kFractions.size());
  for (const double fraction : kFractions)
    parts.emplace_back(state_->transformer, fraction, state_->sizes);
  state_->making_s = -seconds_until(start);
  const auto count = static_cast<double>(state_->of_threads.size());
  const double later_s = std::max(0.0, more * (seconds - state_->making_s) / count);
  double left = count;
  for (OfThreads& of : state_->of_threads) {
    of.visit(parts, in_seconds(seconds_until(end) / left), later_s);
    left -= 1.0;
  }
}

double StepMeasurement::making_s() const { return state_->making_s; }

MeasuredSteps StepMeasurement::measured(std::size_t index) const {
  MeasuredSteps measured = state_->of_threads.at(index).measured();
  if (measured.left_out.empty()) measured.left_out = state_->lacks_memory;
  return measured;
}

}  // namespace tandem::exec
