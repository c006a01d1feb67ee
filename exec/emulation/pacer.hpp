#pragma once

// Makes a device's computing lane as slow as the plan says it is.

#include <chrono>
#include <cstdint>

#include "exec/emulation/message_overhead.hpp"
#include "exec/emulation/turn.hpp"
#include "model/graph/task_graph.hpp"
#include "model/predict/cost_model.hpp"

namespace tandem::exec {

enum class Pace : std::uint8_t {
  real,      // no emulation: spans are wall time
  measured,  // a task takes its own CPU time times the device's slowdown
  nominal,   // a task takes what the plan's profile says
};

// A capture or delivery, which a computing thread does between its tasks.
struct MessageCopy {
  model::TaskKind kind = model::TaskKind::capture;
  model::DeviceIndex device = 0;  // whose it is
  model::CopySize size{};
  bool computing_thread = false;  // sends or receives the message, too (model/predict/program.hpp)
  // real: when it began, if that was before begin().
  std::chrono::steady_clock::time_point since = std::chrono::steady_clock::time_point::max();
};

// What a pacer knows of time; a test brings its own.
class LaneClock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  virtual ~LaneClock() = default;
  [[nodiscard]] virtual TimePoint now() = 0;
  [[nodiscard]] virtual std::chrono::nanoseconds cpu_time() = 0;  // of the calling thread
  virtual void sleep_until(TimePoint when) = 0;
};

// This machine's clocks. Stateless.
[[nodiscard]] LaneClock& system_lane_clock();

// What brings back the caches that a lane lost to others while it waited. For the lane's thread.
class CacheRefill {
 public:
  virtual ~CacheRefill() = default;
  // The lane has executed `task`.
  virtual void executed(const model::Task& task) = 0;
  // The lane goes on after a wait.
  virtual void refill() = 0;
};

struct PacerOptions {
  Pace pace = Pace::real;
  double slowdown = 1.0;                    // measured
  const model::CostModel* costs = nullptr;  // nominal, or disk_rate; outlives the pacer
  double disk_rate = 0.0;  // bytes a second of what cpu tasks read from the emulated disk
  double dilation = 1.0;   // emulated time passes so many times more slowly; not with Pace::real
  Turn* turn = nullptr;    // taken to compute; null: this lane has the machine. Outlives the pacer
  // measured: what small messages take of the computing thread; null: nothing. Outlives the pacer
  const MessageOverhead* messages = nullptr;
  bool whole_machine = false;  // measured: by wall time, as several threads compute
  // measured, with a turn: what the device's caches need after a wait; null: nothing. Outlives the
  // pacer.
  CacheRefill* refill = nullptr;
};

// The schedule of one cpu lane. Each task moves the moment when the lane is due,
//   due = max(due, when its inputs were available) + time
//   time = dilation * slowdown * CPU time of the task (measured; reading the clock is not charged),
//          or dilation * the cost model's (nominal);
//          of a fetch, its bytes / disk_rate besides, at measured pace instead, as what the calls
//          take that read is the real disk's; 0 of a release
// and settle() waits for that moment before anything that others can see. So a late wake-up is
// caught up by the next sleeps instead of adding up, and tasks far shorter than a sleep are exact.
// An example at slowdown 2: three tasks of 1 ms that begin at 0 make the lane due at 6 ms;
// settle(), called at 3 ms, sleeps 3 ms, and if it wakes at 6.1 ms, the next task of 1 ms is due at
// 8 ms all the same. A capture or delivery counts as a task. At measured pace a small message takes
// what was measured before the run, as it goes over this machine's loopback, which wakes other
// devices' threads. With a turn, the lane computes only while it has it: from begin() on, until it
// waits (wait(), settle()), or until other lanes have waited for a while and a task ends. A lane
// that goes on after a long wait refills its caches first, and is not charged for that. A pacer is
// used by its lane's thread only.
class Pacer {
 public:
  using TimePoint = LaneClock::TimePoint;
  struct Interval {
    TimePoint start;
    TimePoint end;
  };

  explicit Pacer(const PacerOptions& options, LaneClock& clock = system_lane_clock());

  [[nodiscard]] bool emulates() const { return options_.pace != Pace::real; }
  // Says that the lane waited: its next task cannot start before `when`.
  void available(TimePoint when);
  // A task begins. Throws Error if the turn was cancelled.
  void begin();
  // When the task that ended just now started and ended on the paced device.
  Interval end(const model::Batch& batch, const model::Task& task);
  // When the capture or delivery that ended just now started and ended there.
  Interval end_copy(const MessageCopy& copy);
  // The same of `bytes` of the cache of `device` that were copied, before the first task of a step.
  Interval end_cache_copy(model::DeviceIndex device, model::Bytes bytes);
  // What sending (capture) or receiving (deliver) a small message takes of a thread of the paced
  // device that does not compute, as that of a channel with relays. 0 without emulation. Any
  // thread.
  [[nodiscard]] std::chrono::nanoseconds message_time(model::DeviceIndex device,
                                                      model::TaskKind kind,
                                                      model::Bytes payload) const;
  // Returns when the tasks so far have ended on the paced device.
  void settle();
  // When the tasks so far ended, or will: what this device has now, it has since then.
  [[nodiscard]] TimePoint due() const { return emulates() ? due_ : clock_->now(); }
  // The lane is going to wait for something else: others may compute.
  void wait() noexcept;

  // How far behind its schedule the lane was at settle(), in the mean and at most: demand above
  // what this machine has. 0 without emulation.
  [[nodiscard]] double mean_late_s() const;
  [[nodiscard]] double max_late_s() const { return max_late_s_; }

 private:
  void take_turn();
  [[nodiscard]] std::chrono::nanoseconds used();
  [[nodiscard]] double measured_s();  // since begin()
  Interval occupy(double seconds);

  PacerOptions options_;
  LaneClock* clock_;
  TimePoint due_;
  TimePoint started_;
  std::chrono::nanoseconds cpu_started_{0};
  std::chrono::nanoseconds cpu_overhead_{0};  // of reading the clock once
  bool has_turn_ = false;
  TimePoint turn_taken_;
  TimePoint waiting_since_;  // when the lane gave its turn back
  double late_s_ = 0.0;
  double max_late_s_ = 0.0;
  std::int64_t settled_ = 0;
};

}  // namespace tandem::exec
