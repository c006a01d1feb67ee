#pragma once

// The channel lanes of one device: what stands between its computing thread and the transport. Each
// is used by the computing thread and, where messages have to wait for the network, by one thread
// of its own. A relay is sent when the message that it passes on arrives: by the thread that
// receives that, if the network takes it at once, else by the thread of the relay's own channel.

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
  // Called on a lane's own thread with the reason of its failure; cancel every lane here.
  std::function<void(const std::string& reason)> on_failure;
  // What sending (capture) or receiving (deliver) a small message of so many bytes takes of an
  // emulated device's threads; null: no more than it takes here. Any thread.
  std::function<Clock::duration(model::TaskKind kind, std::size_t bytes)> thread_time{};
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
  // Room for so many bytes, for good. Throws logic_error for more than there is while a step is
  // under way, whose payloads must stay where they are.
  void declare(std::int64_t bytes);
  // The thread, if the messages of `program` need one: at start-up, so that steps allocate
  // nothing. Throws logic_error if the messages take more room than was declared.
  void reserve(const ChannelProgram& program);
  [[nodiscard]] double allocated_bytes() const;
  // Returns when the step's messages have all passed. Throws Error if cancelled.
  void finish();
  // Ends the thread, after its present message. A destructor's first act, as the thread calls
  // virtual functions; idempotent.
  void stop() noexcept;
  // Makes every present and future call throw Error(reason). Any thread.
  void cancel(const std::string& reason) noexcept;

 protected:
  // Begins a step's messages; `program` was reserved and stays until finish() returns. With several
  // steps in flight each has a lane of its own at either end of a channel: the first message passes
  // when all of the step that began last in the lane `before` have (null: nothing is before it).
  void begin(std::int32_t step, const ChannelProgram& program, ChannelLane* before);
  // Sends or receives the thread's next message, when there is something for it to do. May wait for
  // the network.
  virtual void transfer() = 0;
  [[nodiscard]] virtual bool has_work() const = 0;  // for the thread; under the mutex
  [[nodiscard]] virtual bool done() const = 0;      // with the step; under the mutex
  virtual void reset() = 0;                         // for a new step, under the mutex
  // Whether the messages of `program` may need the thread.
  [[nodiscard]] virtual bool needs_thread(const ChannelProgram& program) const = 0;
  [[nodiscard]] const ChannelMessage& message(std::int32_t position) const {
    return program_->messages[static_cast<std::size_t>(position)];
  }
  [[nodiscard]] const ChannelProgram& program() const { return *program_; }
  // How many messages the step has.
  [[nodiscard]] std::int32_t count() const { return count_; }
  // Where a message that is no relay waits, or visits.
  [[nodiscard]] std::span<std::byte> slot(const ChannelMessage& message);
  [[nodiscard]] MessageTag tag(const ChannelMessage& message) const {
    return {.step = step_, .task = message.task};
  }
  // Waits under `lock` until `predicate()`, as long as it takes: whoever watches the peers cancels
  // when one is silent. Throws Error if cancelled.
  template <class Predicate>
  void await(std::unique_lock<std::mutex>& lock, Predicate predicate);
  // Whether the computing thread waits here, or another lane for its turn. Under the mutex.
  [[nodiscard]] bool awaited() const { return awaited_ > 0; }
  // Waits under `lock` until `predicate()` or `deadline`. Returns whether `predicate()`. Throws
  // Error if cancelled.
  template <class Predicate>
  [[nodiscard]] bool await_until(std::unique_lock<std::mutex>& lock, Clock::time_point deadline,
                                 Predicate predicate);
  // Whether it is this lane's turn on the channel.
  [[nodiscard]] bool has_turn();
  // Waits for that turn, on the thread. Returns when the last message before its own had been sent.
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
  // Whether all messages of the step that began as number `begun` here have passed.
  [[nodiscard]] bool passed(std::int64_t begun);
  Clock::time_point await_passed(std::int64_t begun);

  Transport* transport_;
  model::DeviceIndex peer_;
  LaneOptions options_;
  std::vector<std::byte> storage_;
  std::size_t slot_bytes_ = 0;

  const ChannelProgram* program_ = nullptr;  // may be gone when the step is done
  std::int32_t count_ = 0;
  std::int32_t step_ = -1;
  bool under_way_ = false;         // from begin() until finish() has returned
  std::int64_t begun_ = 0;         // steps; a step's own number comes again, after a warm-up
  ChannelLane* before_ = nullptr;  // whose messages of the step before_begun_ come first
  std::int64_t before_begun_ = 0;
  Clock::time_point last_sent_{};

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool cancelled_ = false;
  int awaited_ = 0;  // how many wait
  std::string reason_;
  std::thread thread_;
};

class IncomingLane;

// The sending end: messages are sent in order, each when it is ready: captured by the computing
// thread, or arrived if it is a relay. Whoever makes it ready sends it, if it is the next one and
// the network takes it at once; a message that has to wait, and those that become ready while
// others are sent, are the thread's, so that neither the computing thread nor one that receives
// ever waits for the network to take one.
class OutgoingLane final : public ChannelLane {
 public:
  using ChannelLane::ChannelLane;
  ~OutgoingLane() override { stop(); }

  // Begins a step as ChannelLane::begin does. `arriving` are the lanes of the step's incoming
  // channels, which begin after this one and stay until both have finished.
  void begin(std::int32_t step, const ChannelProgram& program,
             std::span<IncomingLane* const> arriving, ChannelLane* before = nullptr);
  // Returns storage for the payload of message `position`, which is no relay. Waits for room, which
  // the program promises without this device's help (model/graph/channel_slots.hpp).
  [[nodiscard]] std::span<std::byte> room(std::int32_t position);
  // Says that the storage holds the payload, on this device's clock since `ready`.
  void send(std::int32_t position, Clock::time_point ready) { offer(position, ready, false); }
  // Says that the message that `position` passes on has arrived. For the thread that received it.
  void relay(std::int32_t position, Clock::time_point arrival) { offer(position, arrival, true); }

  struct Times {
    Clock::time_point start;  // when it was ready and the one before it sent
    Clock::time_point sent;
  };
  // When message `position` was sent. After finish().
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
  bool sending_ = false;     // somebody sends the one at `sent_`
  std::int32_t sent_ = 0;
  std::vector<Times> times_;
};

// The receiving end: messages are received in order and delivered in any. Where some are passed on,
// a thread receives all of the step, and tells the relays' lanes.
class IncomingLane final : public ChannelLane {
 public:
  using ChannelLane::ChannelLane;
  ~IncomingLane() override { stop(); }

  // Begins a step as ChannelLane::begin does. `leaving` are the lanes of the step's outgoing
  // channels, which have begun and stay until both have finished.
  void begin(std::int32_t step, const ChannelProgram& program,
             std::span<OutgoingLane* const> leaving, ChannelLane* before = nullptr);
  // Waits for message `position`. Returns when it was there; nothing if it was not before
  // `deadline`. For threaded lanes.
  [[nodiscard]] std::optional<Clock::time_point> await_arrival(std::int32_t position,
                                                               Clock::time_point deadline);
  // Waits for message `position`. Returns its payload.
  [[nodiscard]] std::span<const std::byte> payload(std::int32_t position);
  // Whether a thread of its own receives the step's messages, not the computing thread.
  [[nodiscard]] bool threaded() const { return threaded_; }
  // When message `position` was there: before the work of taking it in if the computing thread does
  // that, else after it.
  [[nodiscard]] Clock::time_point arrival(std::int32_t position) const {
    return arrivals_[static_cast<std::size_t>(position)];
  }
  // Says that message `position` is delivered: its slot may take another one, once all relays of it
  // are sent.
  void delivered(std::int32_t position);
  // The payload of a message that has arrived and is not passed on by all its relays. Any thread.
  [[nodiscard]] std::span<const std::byte> arrived(std::int32_t position) {
    return slot(message(position));
  }
  // Says that a relay of message `position` is sent. Any thread.
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
  std::int32_t to_pass_on_ = 0;     // relays that are not sent; under the mutex
  std::vector<std::int32_t> held_;  // by position: delivery and relays to come; under the mutex
  std::vector<Clock::time_point> arrivals_;
};

}  // namespace tandem::exec
