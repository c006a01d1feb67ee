#pragma once

// What a process is doing, for its heartbeats: whoever waits for it shall see it get on.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "exec/transport/wire.hpp"

namespace tandem::exec {

// A board that the working threads write on and the watching ones read. It has no lock; what is
// read while it changes may be of two moments, which does no harm to those who read it.
class Activity {
 public:
  static constexpr model::DeviceIndex kNobody = -1;

  // A phase begins, with or for `subject`; `total` is how much there is to do, 0 if that is not
  // known.
  void enter(Phase phase, model::DeviceIndex subject = kNobody, std::uint64_t total = 0) {
    phase_.store(phase, std::memory_order_relaxed);
    subject_.store(subject, std::memory_order_relaxed);
    total_.store(total, std::memory_order_relaxed);
    advance(0);
  }
  // So much of the phase's total is done.
  void advance(std::uint64_t done) {
    done_.store(done, std::memory_order_relaxed);
    tick();
  }
  // The present phase waits for `subject`.
  void wait_for(model::DeviceIndex subject) { subject_.store(subject, std::memory_order_relaxed); }
  // Some work was done. Two threads at once may count as one.
  void tick() {
    ticks_.store(ticks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  // The processor has computed for so long. Of one thread, as finish_step().
  void compute(std::chrono::nanoseconds time) {
    busy_ns_.store(
        busy_ns_.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(time.count()),
        std::memory_order_relaxed);
  }
  // A step of so many tokens is done.
  void finish_step(std::int64_t rows) {
    rows_.store(rows_.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(rows),
                std::memory_order_relaxed);
  }

  [[nodiscard]] Heartbeat read() const {
    return {.phase = phase_.load(std::memory_order_relaxed),
            .subject = subject_.load(std::memory_order_relaxed),
            .ticks = ticks_.load(std::memory_order_relaxed),
            .done = done_.load(std::memory_order_relaxed),
            .total = total_.load(std::memory_order_relaxed),
            .busy_ns = busy_ns_.load(std::memory_order_relaxed),
            .rows = rows_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<Phase> phase_ = Phase::waiting;
  std::atomic<model::DeviceIndex> subject_ = kNobody;
  std::atomic<std::uint64_t> ticks_ = 0;
  std::atomic<std::uint64_t> done_ = 0;
  std::atomic<std::uint64_t> total_ = 0;
  std::atomic<std::uint64_t> busy_ns_ = 0;
  std::atomic<std::uint64_t> rows_ = 0;
};

// Whether who does that is at work for its subject, and does not wait for it.
[[nodiscard]] bool works_itself(const Heartbeat& activity);

// `activity` in words: "slices the weights of phone, 34%", "computes, task 12 of 300". `name` gives
// a device's.
[[nodiscard]] std::string describe(const Heartbeat& activity,
                                   const std::function<std::string(model::DeviceIndex)>& name);

}  // namespace tandem::exec
