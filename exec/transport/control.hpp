#pragma once

// The control connections of one process and its watch over its peers.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/transport/activity.hpp"
#include "exec/transport/connection.hpp"

namespace tandem::exec {

struct ControlPeer {
  model::DeviceIndex device = 0;
  Connection connection;  // Hellos exchanged
};

struct ControlOptions {
  std::chrono::milliseconds heartbeat{300};  // between two
  std::chrono::milliseconds silence{1500};   // then a peer counts as gone
  // How long a peer may be silent before its first byte, if that is more than `silence`: over a
  // slow way it has our answer late.
  std::chrono::milliseconds first{0};
  // A peer that takes nothing of what waits for it, and does not say that it is behind, counts as
  // gone after this.
  std::chrono::milliseconds unread{5000};
  const Activity* activity = nullptr;  // told in heartbeats; outlives the Control, may be null
  // Returns the bytes that this process has in memory, for heartbeats; null: not known.
  std::function<std::uint64_t()> memory{};
  // Called once, on the background thread, with the reason of the first failure: cancel the
  // transport here. Must not call back into Control.
  std::function<void(const std::string& reason)> on_failure{};
};

struct PeerState {
  Heartbeat activity;       // as it last said
  Clock::time_point moved;  // when its work last got on
  std::string name;
};

// The master has one peer a worker; a worker has one, the master. One background thread reads,
// sends heartbeats and watches: a peer that is silent, does not read, closes without a Goodbye,
// breaks the protocol or aborts fails the whole: the others are sent Abort(reason), every later
// call throws Error(reason), on_failure is called. A peer that is alive may take as long as it
// takes: what it is doing can be asked for. Thread-safe.
class Control {
 public:
  Control(std::vector<ControlPeer> peers, ControlOptions options);
  ~Control();  // closes at once; without close() before it the peers take it as a failure
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Takes in one more peer, watched and kept alive from now on. Throws Error after a failure.
  void add(ControlPeer peer);
  // Queues the message and writes what the kernel takes; waits while more than 8 MiB are queued for
  // that peer.
  void send(model::DeviceIndex to, const Message& message);
  void send_all(const Message& message);
  // Returns the next message of `from` other than heartbeats. Throws Error when nothing came before
  // the deadline (that alone fails nothing), or after a failure.
  [[nodiscard]] Message receive(model::DeviceIndex from,
                                Clock::time_point deadline = Clock::time_point::max());
  // Returns the next message of `from`, which is an M. Throws as receive() does, and Error naming
  // both types if it is another one.
  template <class M>
  [[nodiscard]] M expect(model::DeviceIndex from,
                         Clock::time_point deadline = Clock::time_point::max()) {
    Message message = receive(from, deadline);
    if (M* wanted = std::get_if<M>(&message)) return std::move(*wanted);
    unexpected(from, message, Message{M{}});
  }
  // What `device` said last, and when its work got on.
  [[nodiscard]] PeerState state_of(model::DeviceIndex device) const;

  // Fails the whole for a reason of one's own: Abort to every peer, on_failure, Error everywhere.
  void abort(const std::string& reason) noexcept;
  [[nodiscard]] bool failed() const;
  // Throws Error(reason) after a failure.
  void check() const;

  // Says that the work is done: from now on a peer that is lost is lost alone. Calls about it throw
  // Error with the reason; the others go on.
  void say_goodbye();
  // Ends well: sends Goodbye to all and waits for theirs until the deadline. Nothing fails after
  // it. Returns what is to be said of peers that were lost since say_goodbye(), or have not said
  // Goodbye by then. Throws Error after a failure.
  [[nodiscard]] std::vector<std::string> close(Clock::time_point deadline);

 private:
  [[noreturn]] void unexpected(model::DeviceIndex from, const Message& got,
                               const Message& wanted) const;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::exec
