#pragma once

// What moves the payloads of transfers between devices: an interface of a few calls, so that TCP
// can be decorated (link emulation) or replaced (MPI).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "model/graph/task_graph.hpp"

namespace tandem::exec {

// The name of one message: both ends lowered the same plan, so both know which transfer it is.
struct MessageTag {
  std::int32_t step = 0;
  model::TaskIndex task = 0;
  friend constexpr bool operator==(MessageTag, MessageTag) = default;
};

using Clock = std::chrono::steady_clock;

// When a message occupied its channel and when it was there, on this machine's steady clock.
struct MessageTimes {
  // Sender: when its channel was free again. Receiver: when the message was there, before the work
  // of taking it in.
  Clock::time_point sent;
  Clock::time_point arrived;  // receiver: when the payload may be used; sender: equal to sent
};

// All channels of one process. Each sending end and each receiving end of a channel may be used by
// one thread at a time; different ends by different threads at once; cancel() by any thread.
class Transport {
 public:
  virtual ~Transport() = default;

  // Sends `payload` to device `to`. Returns when the channel can take the next message (`payload`
  // may then be overwritten), which may be before it is received. Waits as long as the peer takes,
  // which may compute before it receives. Throws Error if the peer is gone, or cancelled.
  virtual MessageTimes send(model::DeviceIndex to, MessageTag tag,
                            std::span<const std::byte> payload) = 0;

  // Sends a payload that an emulated device had at `ready`, whenever this machine came to compute
  // it: an emulated link begins at that moment, a real one now. With `by_computing_thread` a device
  // of its own would send and receive it on its computing threads. Returns and throws as send()
  // does.
  virtual MessageTimes send_since(model::DeviceIndex to, MessageTag tag,
                                  std::span<const std::byte> payload, Clock::time_point /*ready*/,
                                  bool /*by_computing_thread*/) {
    return send(to, tag, payload);
  }

  // Sends `payload` if none of it has to wait for the network: the runtime then sends from the
  // computing thread, which saves a wake-up. Returns nothing if it has to wait; some of it may be
  // on its way then, and send() of the same message and payload sends the rest.
  [[nodiscard]] virtual std::optional<MessageTimes> try_send(
      model::DeviceIndex to, MessageTag tag, std::span<const std::byte> payload) = 0;

  // Receives the next message from device `from` into `payload`. Throws Error (both devices,
  // expected and actual tag or size, remedy) if it is not the message `tag` of that size, if the
  // peer is gone, or if nothing came before `deadline`. Spins for a bounded time before it blocks,
  // if `may_spin`.
  virtual MessageTimes receive(model::DeviceIndex from, MessageTag tag,
                               std::span<std::byte> payload, Clock::time_point deadline,
                               bool may_spin) = 0;

  // Whether messages of `bytes` should be received by the computing thread itself, when it needs
  // them.
  [[nodiscard]] virtual bool receives_inline(model::DeviceIndex from, std::size_t bytes) const = 0;

  // Makes every present and future call throw Error(reason). Idempotent.
  virtual void cancel(const std::string& reason) noexcept = 0;
};

}  // namespace tandem::exec
