#pragma once

// The channel lanes of one device: what stands between its computing thread and the transport. Each
// is used by the computing thread and, where messages have to wait for the network, by one thread
// of its own.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "exec/runtime/schedule.hpp"
#include "exec/transport/transport.hpp"

namespace tandem::exec {

struct LaneOptions {
  bool may_spin = false;  // before blocking; never on an emulated or oversubscribed device
  // Called on a lane's own thread with the reason of its failure; cancel every lane here.
  std::function<void(const std::string& reason)> on_failure;
};

// What both ends share: slots for payloads, the step under way, the thread, and how it all ends.
// Except for cancel(), the public calls are for the computing thread.
class ChannelLane {
 public:
  // `transport` outlives the lane.
  ChannelLane(Transport& transport, model::DeviceIndex peer, LaneOptions options);
  virtual ~ChannelLane();
  ChannelLane(const ChannelLane&) = delete;
  ChannelLane& operator=(const ChannelLane&) = delete;

  [[nodiscard]] model::DeviceIndex peer() const { return peer_; }
  // Room for the messages of `schedule`, and the thread if they need one: at start-up, so that
  // steps allocate nothing.
  void reserve(const ChannelSchedule& schedule);
  [[nodiscard]] double allocated_bytes() const;
  // A step's messages; `schedule` was reserved and stays until finish() returns.
  void begin(std::int32_t step, const ChannelSchedule& schedule);
  // Returns when the step's messages have all passed. Throws Error if cancelled.
  void finish();
  // Ends the thread, after its present message. A destructor's first act, as the thread calls
  // virtual functions; idempotent.
  void stop() noexcept;
  // Every present and future call throws Error(reason). Any thread.
  void cancel(const std::string& reason) noexcept;

 protected:
  // The thread's next message, when there is something for it to do. May wait for the network.
  virtual void carry() = 0;
  [[nodiscard]] virtual bool has_work() const = 0;  // for the thread; under the mutex
  [[nodiscard]] virtual bool done() const = 0;      // with the step; under the mutex
  virtual void reset() = 0;                         // for a new step, under the mutex
  // Whether messages of `bytes` may need the thread.
  [[nodiscard]] virtual bool needs_thread(std::size_t bytes) const = 0;
  [[nodiscard]] const ChannelMessage& message(std::int32_t position) const {
    return schedule_->messages[static_cast<std::size_t>(position)];
  }
  [[nodiscard]] const ChannelSchedule& schedule() const { return *schedule_; }
  // Messages of the step.
  [[nodiscard]] std::int32_t count() const { return count_; }
  [[nodiscard]] std::size_t slot_bytes() const { return slot_floats_ * sizeof(float); }
  [[nodiscard]] std::span<float> slot(const ChannelMessage& message);
  [[nodiscard]] MessageTag tag(const ChannelMessage& message) const {
    return {.step = step_, .task = message.task};
  }
  // Waits under `lock` until `ready()`, as long as it takes: whoever watches the peers cancels when
  // one is silent. Throws Error if cancelled.
  template <class Ready>
  void await(std::unique_lock<std::mutex>& lock, Ready ready);
  [[nodiscard]] Transport& transport() { return *transport_; }
  [[nodiscard]] const Transport& transport() const { return *transport_; }
  [[nodiscard]] const LaneOptions& options() const { return options_; }
  std::mutex& mutex() { return mutex_; }
  std::condition_variable& changed() { return changed_; }

 private:
  void start();
  void work();

  Transport* transport_;
  model::DeviceIndex peer_;
  LaneOptions options_;
  std::vector<float> storage_;
  std::size_t slot_floats_ = 0;

  const ChannelSchedule* schedule_ = nullptr;  // may be gone when the step is done
  std::int32_t count_ = 0;
  std::int32_t step_ = -1;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool cancelled_ = false;
  std::string reason_;
  std::thread thread_;
};

// The sending end: payloads are captured and sent in order. The computing thread sends what the
// network takes at once; a message that has to wait, and those captured while it does, are the
// thread's, so that the computing thread itself never waits for the network to take one.
class OutgoingLane final : public ChannelLane {
 public:
  using ChannelLane::ChannelLane;
  ~OutgoingLane() override { stop(); }

  // Storage for the payload of message `position`, the next one; waits for room, which the schedule
  // promises without this device's help (schedule.hpp).
  [[nodiscard]] std::span<float> room(std::int32_t position);
  // That storage holds the payload, on this device's clock since `ready`: sends it, or leaves (the
  // rest of) it to the thread.
  void send(std::int32_t position, Clock::time_point ready);

  struct Times {
    Clock::time_point start;  // when it was ready and the one before it sent
    Clock::time_point sent;
  };
  // After finish().
  [[nodiscard]] const Times& times(std::int32_t position) const {
    return times_[static_cast<std::size_t>(position)];
  }

 private:
  void carry() override;
  [[nodiscard]] bool has_work() const override { return sent_ < captured_; }
  [[nodiscard]] bool done() const override { return sent_ == count(); }
  void reset() override;
  [[nodiscard]] bool needs_thread(std::size_t /*bytes*/) const override { return true; }

  // Under the mutex. The one at `sent_` is the thread's if it is captured, else the computing
  // thread's.
  std::int32_t captured_ = 0;
  std::int32_t sent_ = 0;
  std::vector<Times> times_;
};

// The receiving end: messages are received in order and delivered in any.
class IncomingLane final : public ChannelLane {
 public:
  using ChannelLane::ChannelLane;
  ~IncomingLane() override { stop(); }

  // The payload of message `position`; waits until it is there.
  [[nodiscard]] std::span<const float> payload(std::int32_t position);
  // Whether a thread of its own receives the step's messages, not the computing thread.
  [[nodiscard]] bool threaded() const { return threaded_; }
  // When it was there: before the work of taking it in if the computing thread does that, else
  // after it.
  [[nodiscard]] Clock::time_point arrival(std::int32_t position) const {
    return arrivals_[static_cast<std::size_t>(position)];
  }
  // Its slot may take another message.
  void delivered(std::int32_t position);

 private:
  void carry() override;
  [[nodiscard]] bool has_work() const override;
  [[nodiscard]] bool done() const override { return !threaded_ || received_ == count(); }
  void reset() override;
  [[nodiscard]] bool needs_thread(std::size_t bytes) const override;
  void receive(std::int32_t position);

  bool threaded_ = false;  // in this step
  std::atomic<std::int32_t> received_{0};
  std::vector<char> delivered_;
  std::vector<Clock::time_point> arrivals_;
};

}  // namespace tandem::exec
