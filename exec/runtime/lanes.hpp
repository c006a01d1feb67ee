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
  // Ends the thread, after its present step. A destructor's first act, as the thread calls virtual
  // functions; idempotent.
  void stop() noexcept;
  // Every present and future call throws Error(reason). Any thread.
  void cancel(const std::string& reason) noexcept;

 protected:
  // One message, on the lane's thread. May wait.
  virtual void carry(std::int32_t position) = 0;
  // True if messages of `bytes` need no thread.
  [[nodiscard]] virtual bool carries_inline(std::size_t bytes) const = 0;
  virtual void reset() = 0;  // for a new step, under the mutex
  [[nodiscard]] const ChannelMessage& message(std::int32_t position) const {
    return schedule_->messages[static_cast<std::size_t>(position)];
  }
  [[nodiscard]] std::int32_t count() const {
    return static_cast<std::int32_t>(schedule_->messages.size());
  }
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
  [[nodiscard]] bool threaded() const { return threaded_; }
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

  const ChannelSchedule* schedule_ = nullptr;
  std::int32_t step_ = -1;
  bool threaded_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_work_ = false;  // the thread has messages of the step left
  bool stopping_ = false;
  bool cancelled_ = false;
  std::string reason_;
  std::thread thread_;
};

// The sending end: payloads are captured and sent in order.
class OutgoingLane final : public ChannelLane {
 public:
  using ChannelLane::ChannelLane;
  ~OutgoingLane() override { stop(); }

  // Storage for the payload of message `position`, the next one; waits for room.
  [[nodiscard]] std::span<float> room(std::int32_t position);
  // That storage holds the payload: sends it, or leaves it to the thread.
  void send(std::int32_t position);

  struct Times {
    Clock::time_point start;  // when the channel took it
    Clock::time_point sent;
  };
  // After finish().
  [[nodiscard]] const Times& times(std::int32_t position) const {
    return times_[static_cast<std::size_t>(position)];
  }

 private:
  void carry(std::int32_t position) override;
  [[nodiscard]] bool carries_inline(std::size_t bytes) const override;
  void reset() override;
  void transmit(std::int32_t position);

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
  // When it could be used.
  [[nodiscard]] Clock::time_point arrival(std::int32_t position) const {
    return arrivals_[static_cast<std::size_t>(position)];
  }
  // Its slot may take another message.
  void delivered(std::int32_t position);

 private:
  void carry(std::int32_t position) override;
  [[nodiscard]] bool carries_inline(std::size_t bytes) const override;
  void reset() override;
  void receive(std::int32_t position);

  std::atomic<std::int32_t> received_{0};
  std::vector<char> delivered_;
  std::vector<Clock::time_point> arrivals_;
};

}  // namespace tandem::exec
