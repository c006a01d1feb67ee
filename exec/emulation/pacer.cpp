#include "exec/emulation/pacer.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "model/base/statistics.hpp"
#include "model/graph/work.hpp"
#include "model/predict/program.hpp"

namespace tandem::exec {
namespace {

// A lane that computes for longer lets others in between: an input that comes meanwhile would
// otherwise wait for a whole prompt. Long against refilling a second-level cache (about 0.2 ms).
constexpr std::chrono::milliseconds kLongestTurn{4};
// A lane that waits longer loses its caches to others (decision 0017).
constexpr std::chrono::milliseconds kForgets{1};

timespec to_timespec(std::chrono::nanoseconds time) {
  timespec result{};
  result.tv_sec = static_cast<time_t>(time.count() / 1'000'000'000);
  result.tv_nsec = static_cast<long>(time.count() % 1'000'000'000);
  return result;
}

// What two readings of the CPU clock in a row are apart.
std::chrono::nanoseconds overhead_of(LaneClock& clock) {
  std::vector<double> gaps_ns(101);
  for (double& gap_ns : gaps_ns) {
    const auto first = clock.cpu_time();
    gap_ns = static_cast<double>((clock.cpu_time() - first).count());
  }
  return std::chrono::nanoseconds(std::llround(model::quantile(std::move(gaps_ns), 0.5)));
}

class SystemLaneClock : public LaneClock {
 public:
  TimePoint now() override { return std::chrono::steady_clock::now(); }
  std::chrono::nanoseconds cpu_time() override {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
  void sleep_until(TimePoint when) override {
    // steady_clock is CLOCK_MONOTONIC.
    const timespec due = to_timespec(when.time_since_epoch());
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr) == EINTR) {
    }
  }
};

}  // namespace

LaneClock& system_lane_clock() {
  static SystemLaneClock clock;
  return clock;
}

Pacer::Pacer(const PacerOptions& options, LaneClock& clock)
    : options_(options), clock_(&clock), due_(clock.now()) {
  require(options.pace != Pace::nominal || options.costs != nullptr,
          "Pacer: nominal pace needs a cost model");
  require(options.disk_rate == 0.0 || options.costs != nullptr,
          "Pacer: a disk rate needs a cost model");
  require(options.slowdown > 0.0, "Pacer: slowdown must be positive");
  require(options.dilation >= 1.0 && (options.dilation == 1.0 || options.pace != Pace::real),
          "Pacer: only emulated time can be dilated");
  if (options.pace == Pace::measured) cpu_overhead_ = overhead_of(clock);
}

void Pacer::available(TimePoint when) { due_ = std::max(due_, when); }

void Pacer::take_turn() {
  if (options_.turn == nullptr) return;
  if (has_turn_ && clock_->now() - turn_taken_ > kLongestTurn) wait();
  if (has_turn_) return;
  options_.turn->take();
  has_turn_ = true;
  turn_taken_ = clock_->now();
  if (options_.refill != nullptr && turn_taken_ - waiting_since_ > kForgets)
    options_.refill->refill();
}

void Pacer::wait() noexcept {
  if (!has_turn_) return;
  options_.turn->give_back();
  has_turn_ = false;
  waiting_since_ = clock_->now();
}

void Pacer::begin() {
  take_turn();
  if (options_.pace == Pace::real) {
    started_ = clock_->now();
  } else if (options_.pace == Pace::measured) {
    cpu_started_ = used();
  }
}

// What the computing so far has used of the processor.
std::chrono::nanoseconds Pacer::used() {
  return options_.whole_machine ? clock_->now().time_since_epoch() : clock_->cpu_time();
}

Pacer::Interval Pacer::end(const model::Batch& batch, const model::Task& task) {
  if (options_.pace == Pace::real) return {started_, clock_->now()};
  if (options_.refill != nullptr) options_.refill->executed(task);
  double seconds = 0.0;
  if (task.kind == model::TaskKind::release) return {due_, due_};
  const bool emulated_disk = task.kind == model::TaskKind::fetch && options_.disk_rate > 0.0;
  if (options_.pace == Pace::measured) {
    // Reading rows is the real disk's and its system calls' time, as it is of loads.
    seconds = emulated_disk ? 0.0 : measured_s() * options_.slowdown;
  } else {
    seconds = options_.costs->compute_time(batch, task).value();
  }
  seconds *= options_.dilation;
  if (emulated_disk) {
    seconds +=
        model::work_of(options_.costs->transformer(), batch, task).bytes_disk / options_.disk_rate;
  }
  return occupy(seconds);
}

Pacer::Interval Pacer::end_copy(const MessageCopy& copy) {
  if (options_.pace == Pace::real) return {std::min(started_, copy.since), clock_->now()};
  if (options_.pace == Pace::nominal) {
    return occupy(
        options_.costs->copy_time(copy.device, copy.kind, copy.size, copy.computing_thread)
            .value() *
        options_.dilation);
  }
  const double message_s = copy.computing_thread && options_.messages != nullptr
                               ? options_.messages->cpu(copy.kind, copy.size.payload).value()
                               : 0.0;
  return occupy((measured_s() + message_s) * options_.slowdown * options_.dilation);
}

Pacer::Interval Pacer::end_cache_copy(model::DeviceIndex device, model::Bytes bytes) {
  if (options_.pace == Pace::real) return {started_, clock_->now()};
  const double seconds = options_.pace == Pace::nominal
                             ? model::cache_copy_time(*options_.costs, device, bytes).value()
                             : measured_s() * options_.slowdown;
  return occupy(seconds * options_.dilation);
}

std::chrono::nanoseconds Pacer::message_time(model::DeviceIndex device, model::TaskKind kind,
                                             model::Bytes payload) const {
  double seconds = 0.0;
  switch (options_.pace) {
    case Pace::real:
      break;
    case Pace::measured:
      if (options_.messages != nullptr)
        seconds = options_.messages->cpu(kind, payload).value() * options_.slowdown;
      break;
    case Pace::nominal:
      seconds = options_.costs->handling_time(device, kind, payload).value();
      break;
  }
  return std::chrono::nanoseconds(std::llround(seconds * options_.dilation * 1e9));
}

double Pacer::measured_s() {
  const auto cpu = used() - cpu_started_ - cpu_overhead_;
  return std::max(0.0, std::chrono::duration<double>(cpu).count());
}

Pacer::Interval Pacer::occupy(double seconds) {
  const TimePoint start = due_;
  due_ += std::chrono::nanoseconds(std::llround(seconds * 1e9));
  return {start, due_};
}

void Pacer::settle() {
  if (options_.pace == Pace::real) return;
  const TimePoint now = clock_->now();
  ++settled_;
  if (now < due_) {
    wait();
    clock_->sleep_until(due_);
    return;
  }
  const double late_s = std::chrono::duration<double>(now - due_).count();
  late_s_ += late_s;
  max_late_s_ = std::max(max_late_s_, late_s);
}

double Pacer::mean_late_s() const {
  return settled_ == 0 ? 0.0 : late_s_ / static_cast<double>(settled_);
}

}  // namespace tandem::exec
