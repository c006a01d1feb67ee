#pragma once

// The disk lane of one device: a thread that loads weight blocks in the order of the graph, as far
// ahead as the graph's edges allow, also into the next step.

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "exec/runtime/lane_programs.hpp"
#include "exec/weights/block_loader.hpp"

namespace tandem::exec {

struct DiskLaneOptions {
  // Emulated disk, bytes a second: a load takes bytes / rate from its earliest start, whatever the
  // real disk does. 0: no emulation.
  double rate = 0.0;
  // Called on the lane's thread with the reason of its failure; should cancel everything.
  std::function<void(const std::string& reason)> on_failure{};
};

// Public calls are for the computing thread, except cancel().
class DiskLane {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Times {
    TimePoint start;
    TimePoint end;
  };

  // `loader` outlives the lane.
  DiskLane(BlockLoader& loader, DiskLaneOptions options);
  ~DiskLane();
  DiskLane(const DiskLane&) = delete;
  DiskLane& operator=(const DiskLane&) = delete;

  // Allocates for the loads of `program` and starts the thread: at start-up, so that steps allocate
  // nothing.
  void reserve(const DiskProgram& program);
  // Begins step `now`, to be followed by `next` (null: unknown, or none), whose loads begin during
  // the step as far as they no longer depend on it. Both were reserved and stay until the step
  // after `next` begins. Another program than the announced one may follow if it loads the same
  // blocks in the same order: a batch of another structure, unknown at that time. Throws
  // logic_error if it does not.
  void begin(const DiskProgram& now, const DiskProgram* next);
  // Waits for load number `position` of the step, however slow the disk. Throws Error if cancelled.
  [[nodiscard]] const LoadedBlock& await(std::int32_t position);
  // Returns its times. After await() or finish(), until the next begin().
  [[nodiscard]] const Times& times(std::int32_t position) const;
  // Marks an event that loads wait for (DiskProgram::events) as done since `when`.
  void done(std::int32_t event, TimePoint when);
  // Waits for all loads of the step. Throws Error if cancelled.
  void finish();
  // On an emulated disk: no load starts before `when`.
  void available(TimePoint when);
  // Ends the thread after the current read; idempotent.
  void stop() noexcept;
  // Makes every current and future call throw Error(reason). Any thread.
  void cancel(const std::string& reason) noexcept;

  // Returns the largest delay of the real disk relative to the emulated one's schedule.
  [[nodiscard]] double max_late_s() const;

 private:
  struct Step {
    const DiskProgram* program = nullptr;
    bool follows = false;    // its loads may depend on the step before
    std::int32_t count = 0;  // of loads
    std::int32_t loaded = 0;
    std::vector<LoadedBlock> blocks;  // by load
    std::vector<Times> times;         // by load
    std::vector<char> done;           // by event
    std::vector<TimePoint> since;     // by event
  };
  [[nodiscard]] Step& step(std::int64_t number) {
    return steps_[static_cast<std::size_t>(number % 3)];
  }
  void replace(Step& announced, const DiskProgram& now);
  void set_up(std::int64_t number, const DiskProgram& program, bool follows);
  void work();
  void load(std::unique_lock<std::mutex>& lock);
  // Returns whether the next load may start; sets `since` to the end of its last dependency.
  [[nodiscard]] bool may_load(TimePoint& since);
  [[nodiscard]] bool events_done(const Step& of, const std::vector<std::int32_t>& events,
                                 TimePoint& since) const;
  void wait_for(std::unique_lock<std::mutex>& lock, std::int32_t loads);

  BlockLoader* loader_;
  DiskLaneOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Step, 3> steps_;    // previous, current, next
  std::int64_t present_ = -1;    // number of the current step
  std::int64_t announced_ = -1;  // number of the last step that may be loaded
  std::int64_t loading_ = 0;     // of the step that the thread loads
  TimePoint due_;                // emulated: the disk is free
  double max_late_s_ = 0.0;
  bool stopping_ = false;
  bool cancelled_ = false;
  std::string reason_;
  std::atomic<bool> interrupt_ = false;  // interrupts a read
  std::thread thread_;
};

}  // namespace tandem::exec
