#pragma once

// The channel lanes of one device, between its computing thread and the transport. The computing
// thread uses each lane and, if messages have to wait for the network, so does one thread of the
// lane. A relay is sent when the message that it passes on arrives: by the thread that receives
// that message if the network takes it at once, else by the thread of the relay's own channel.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "exec/runtime/lane_programs.hpp"
#include "exec/transport/transport.hpp"

namespace tandem::exec {

struct LaneOptions {
  bool may_spin = false;  // before blocking; never on an emulated or oversubscribed device
  bool threaded = false;  // small messages, too, are received by the lane's thread
  // Called on a lane's own thread with the reason of its failure; should cancel every lane.
  std::function<void(const std::string& reason)> on_failure;
  // Returns the time that an emulated device's threads need to send (capture) or receive (deliver)
  // a small message of so many bytes; null: the real time. Any thread.
  std::function<Clock::duration(model::TaskKind kind, std::size_t bytes)> thread_time{};
};

// The common part of both ends: slots for payloads, the current step, the thread, and cancellation.
// Except for cancel(), the public calls are for the computing thread.
class ChannelLane {
 public:
  // `transport` outlives the lane.
  ChannelLane(Transport& transport, model::DeviceIndex peer, LaneOptions options);
  virtual ~ChannelLane();
  ChannelLane(const ChannelLane&) = delete;
  ChannelLane& operator=(const ChannelLane&) = delete;

  [[nodiscard]] model::DeviceIndex peer() const { return peer_; }
  // Allocates the memory for payloads, permanently. Throws logic_error for more than there is while
  // a step is in flight, whose payloads must not move.
  void declare(std::int64_t bytes);
  // Starts the thread if the messages of `program` need one: at start-up, so that steps allocate
  // nothing. Throws logic_error if the messages need more memory than was declared.
  void reserve(const ChannelProgram& program);
  [[nodiscard]] double allocated_bytes() const;
  // Waits for all messages of the step. Throws Error if cancelled.
  void finish();
  // Ends the thread after its current message. Destructors must call it first, as the thread calls
  // virtual functions; idempotent.
  void stop() noexcept;
  // Makes every current and future call throw Error(reason). Any thread.
  void cancel(const std::string& reason) noexcept;

 protected:
  // Begins a step's messages; `program` was reserved and stays until finish() returns. With several
  // steps in flight each has a lane of its own at either end of a channel: the first message waits
  // for all messages of the step that began last in the lane `before` (null: there is none).
  void begin(std::int32_t step, const ChannelProgram& program, ChannelLane* before);
  // Sends or receives the thread's next message, if there is work. May wait for the network.
  virtual void transfer() = 0;
  [[nodiscard]] virtual bool has_work() const = 0;  // for the thread; under the mutex
  [[nodiscard]] virtual bool done() const = 0;      // with the step; under the mutex
  virtual void reset() = 0;                         // for a new step, under the mutex
  // Returns whether the messages of `program` may need the thread.
  [[nodiscard]] virtual bool needs_thread(const ChannelProgram& program) const = 0;
  [[nodiscard]] const ChannelMessage& message(std::int32_t position) const {
    return program_->messages[static_cast<std::size_t>(position)];
  }
  [[nodiscard]] const ChannelProgram& program() const { return *program_; }
  // Returns the number of messages of the step.
  [[nodiscard]] std::int32_t count() const { return count_; }
  // Returns the memory of a message other than a relay: its slot, or the place of gathered weights.
  [[nodiscard]] std::span<std::byte> slot(const ChannelMessage& message);
  [[nodiscard]] MessageTag tag(const ChannelMessage& message) const {
    return {.step = step_, .task = message.task};
  }
  // Waits under `lock` until `predicate()`, without a limit: the watch over peers cancels when one
  // is silent. Throws Error if cancelled.
  template <class Predicate>
  void await(std::unique_lock<std::mutex>& lock, Predicate predicate);
  // Returns whether the computing thread, or another lane for its turn, waits here. Under the
  // mutex.
  [[nodiscard]] bool awaited() const { return awaited_ > 0; }
  // Waits under `lock` until `predicate()` or `deadline`. Returns `predicate()`. Throws Error if
  // cancelled.
  template <class Predicate>
  [[nodiscard]] bool await_until(std::unique_lock<std::mutex>& lock, Clock::time_point deadline,
                                 Predicate predicate);
  // Returns whether it is this lane's turn on the channel.
  [[nodiscard]] bool has_turn();
  // Waits for that turn, on the thread. Returns when the message before its first had been sent.
  Clock::time_point await_turn();
  void set_last_sent(Clock::time_point time) { last_sent_ = time; }  // under the mutex
  [[nodiscard]] Transport& transport() { return *transport_; }
  [[nodiscard]] const Transport& transport() const { return *transport_; }
  [[nodiscard]] const LaneOptions& options() const { return options_; }
  std::mutex& mutex() { return mutex_; }
  std::condition_variable& changed() { return changed_; }

 private:
  void start();
  void work();
  // Returns whether all messages of the step that began as number `begun` here have passed.
  [[nodiscard]] bool passed(std::int64_t begun);
  Clock::time_point await_passed(std::int64_t begun);

  Transport* transport_;
  model::DeviceIndex peer_;
  LaneOptions options_;
  std::vector<std::byte> storage_;
  std::size_t slot_bytes_ = 0;

  const ChannelProgram* program_ = nullptr;  // may dangle once the step is done
  std::int32_t count_ = 0;
  std::int32_t step_ = -1;
  bool under_way_ = false;         // from begin() until finish() has returned
  std::int64_t begun_ = 0;         // number of steps begun; step numbers repeat after a warm-up
  ChannelLane* before_ = nullptr;  // whose messages of the step before_begun_ come first
  std::int64_t before_begun_ = 0;
  Clock::time_point last_sent_{};

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool cancelled_ = false;
  int awaited_ = 0;  // number of waiters
  std::string reason_;
  std::thread thread_;
};

class IncomingLane;

// The sending end: messages are sent in order, each once it is ready: captured by the computing
// thread or, for a relay, arrived. The thread that makes a message ready sends it, if it is the
// next one and the network takes it at once. The lane's thread sends messages that have to wait and
// those that become ready while others are sent, so neither the computing thread nor a receiving
// one ever waits for the network.
class OutgoingLane final : public ChannelLane {
 public:
  using ChannelLane::ChannelLane;
  ~OutgoingLane() override { stop(); }

  // Begins a step as ChannelLane::begin does. `arriving` are the lanes of the step's incoming
  // channels, which begin after this one and stay until both have finished.
  void begin(std::int32_t step, const ChannelProgram& program,
             std::span<IncomingLane* const> arriving, ChannelLane* before = nullptr);
  // Returns storage for the payload of message `position`, which is not a relay. Waits for a free
  // slot, which the program guarantees without this device's help (model/graph/channel_slots.hpp).
  [[nodiscard]] std::span<std::byte> room(std::int32_t position);
  // Marks the payload as complete since `ready`, on this device's clock.
  void send(std::int32_t position, Clock::time_point ready) { offer(position, ready, false); }
  // Marks the message that `position` passes on as arrived. For the thread that received it.
  void relay(std::int32_t position, Clock::time_point arrival) { offer(position, arrival, true); }

  struct Times {
    Clock::time_point start;  // when it was ready and the one before it sent
    Clock::time_point sent;
  };
  // Returns when message `position` was sent. After finish().
  [[nodiscard]] const Times& times(std::int32_t position) const {
    return times_[static_cast<std::size_t>(position)];
  }

 private:
  void offer(std::int32_t position, Clock::time_point ready, bool relayed);
  [[nodiscard]] std::span<const std::byte> payload(const ChannelMessage& message);
  void sent(std::int32_t position);
  void transfer() override;
  [[nodiscard]] bool has_work() const override {
    return !sending_ && sent_ < count() && ready_[static_cast<std::size_t>(sent_)] != 0;
  }
  [[nodiscard]] bool done() const override { return sent_ == count(); }
  void reset() override;
  [[nodiscard]] bool needs_thread(const ChannelProgram& /*program*/) const override { return true; }

  std::span<IncomingLane* const> arriving_;
  // Under the mutex.
  std::vector<char> ready_;  // by position: it may be sent
  bool sending_ = false;     // a thread is sending the one at `sent_`
  std::int32_t sent_ = 0;
  std::vector<Times> times_;
};

// The receiving end: messages are received in order and delivered in any order. If some are passed
// on, a thread receives all messages of the step and notifies the relays' lanes.
class IncomingLane final : public ChannelLane {
 public:
  using ChannelLane::ChannelLane;
  ~IncomingLane() override { stop(); }

  // Begins a step as ChannelLane::begin does. `leaving` are the lanes of the step's outgoing
  // channels, which have begun and stay until both have finished.
  void begin(std::int32_t step, const ChannelProgram& program,
             std::span<OutgoingLane* const> leaving, ChannelLane* before = nullptr);
  // Waits for message `position`. Returns its arrival; nothing if it has not arrived by `deadline`.
  // For threaded lanes.
  [[nodiscard]] std::optional<Clock::time_point> await_arrival(std::int32_t position,
                                                               Clock::time_point deadline);
  // Waits for message `position`. Returns its payload.
  [[nodiscard]] std::span<const std::byte> payload(std::int32_t position);
  // Returns whether the lane's thread receives the step's messages, not the computing thread.
  [[nodiscard]] bool threaded() const { return threaded_; }
  // Returns the arrival of message `position`: before its reception if the computing thread
  // receives it, else after it.
  [[nodiscard]] Clock::time_point arrival(std::int32_t position) const {
    return arrivals_[static_cast<std::size_t>(position)];
  }
  // Marks message `position` as delivered: its slot is free once all its relays are sent.
  void delivered(std::int32_t position);
  // Returns the payload of an arrived message whose relays are not all sent. Any thread.
  [[nodiscard]] std::span<const std::byte> arrived(std::int32_t position) {
    return slot(message(position));
  }
  // Marks a relay of message `position` as sent. Any thread.
  void passed_on(std::int32_t position);

 private:
  void transfer() override;
  [[nodiscard]] bool has_work() const override;
  [[nodiscard]] bool done() const override {
    return !threaded_ || (received_ == count() && to_pass_on_ == 0);
  }
  void reset() override;
  [[nodiscard]] bool needs_thread(const ChannelProgram& program) const override;
  void receive(std::int32_t position);

  std::span<OutgoingLane* const> leaving_;
  bool threaded_ = false;  // in this step
  std::atomic<std::int32_t> received_{0};
  std::int32_t to_pass_on_ = 0;     // relays not sent; under the mutex
  std::vector<std::int32_t> held_;  // by position: outstanding delivery and relays; under the mutex
  std::vector<Clock::time_point> arrivals_;
};

}  // namespace tandem::exec
