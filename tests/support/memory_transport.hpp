#pragma once

// Channels between devices of one process, without sockets: as slow, as reordered and as narrow as
// a test wants them.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/transport/transport.hpp"
#include "model/base/error.hpp"

namespace tandem::testing {

struct MemoryOptions {
  bool sends_inline = false;
  bool receives_inline = false;
  std::size_t capacity = 1000;  // messages of a channel; beyond, send waits
  bool rendezvous = false;      // send waits until its message is received: a network of no room
  std::chrono::microseconds max_delay{0};  // of a message, uniformly random
  std::uint64_t seed = 1;
};

// What all devices share.
class MemoryNetwork {
 public:
  explicit MemoryNetwork(const MemoryOptions& chosen) : options(chosen), random(chosen.seed) {}

  struct Parcel {
    exec::MessageTag tag;
    std::vector<std::byte> payload;
    exec::Clock::time_point due;
  };
  // A device has failed, so nobody need wait for it.
  void fail(const std::string& reason) {
    const std::lock_guard lock(mutex);
    if (failure.empty()) failure = "another device failed: " + reason;
    changed.notify_all();
  }

  const MemoryOptions options;
  // Called with every message as it is sent, one at a time. Set before the first one; may be empty.
  std::function<void(model::DeviceIndex from, model::DeviceIndex to, exec::MessageTag tag,
                     std::span<const std::byte> payload)>
      tap{};
  std::string failure;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<model::DeviceIndex, model::DeviceIndex>, std::deque<Parcel>> channels;
  std::mt19937_64 random;
};

class MemoryTransport final : public exec::Transport {
 public:
  MemoryTransport(MemoryNetwork& network, model::DeviceIndex self)
      : network_(network), self_(self) {}

  exec::MessageTimes send(model::DeviceIndex to, exec::MessageTag tag,
                          std::span<const std::byte> payload) override {
    std::unique_lock lock(network_.mutex);
    auto& channel = network_.channels[{self_, to}];
    wait(lock, [&] { return channel.size() < network_.options.capacity; });
    const auto now = push(to, tag, payload);
    if (network_.options.rendezvous) wait(lock, [&] { return channel.empty(); });
    return {.sent = now, .arrived = now};
  }

  std::optional<exec::MessageTimes> try_send(model::DeviceIndex to, exec::MessageTag tag,
                                             std::span<const std::byte> payload) override {
    const std::lock_guard lock(network_.mutex);
    throw_if_over();
    const auto& options = network_.options;
    if (!options.sends_inline || options.rendezvous) return std::nullopt;
    if (network_.channels[{self_, to}].size() >= options.capacity) return std::nullopt;
    const auto now = push(to, tag, payload);
    return exec::MessageTimes{.sent = now, .arrived = now};
  }

  exec::MessageTimes receive(model::DeviceIndex from, exec::MessageTag tag,
                             std::span<std::byte> payload, exec::Clock::time_point deadline,
                             bool /*may_spin*/) override {
    std::unique_lock lock(network_.mutex);
    auto& channel = network_.channels[{from, self_}];
    while (true) {
      throw_if_over();
      const auto now = exec::Clock::now();
      if (now >= deadline) throw Error("memory transport: nothing came in time");
      if (!channel.empty() && channel.front().due <= now) break;
      network_.changed.wait_until(
          lock, channel.empty() ? deadline : std::min(deadline, channel.front().due));
    }
    MemoryNetwork::Parcel parcel = std::move(channel.front());
    channel.pop_front();
    network_.changed.notify_all();
    if (parcel.tag != tag || parcel.payload.size() != payload.size()) {
      throw Error("memory transport: another message than expected");
    }
    std::copy(parcel.payload.begin(), parcel.payload.end(), payload.begin());
    const auto now = exec::Clock::now();
    return {.sent = now, .arrived = now};
  }

  bool receives_inline(model::DeviceIndex /*from*/, std::size_t /*bytes*/) const override {
    return network_.options.receives_inline;
  }

  void cancel(const std::string& reason) noexcept override {
    const std::lock_guard lock(network_.mutex);
    if (!cancelled_) reason_ = reason;
    cancelled_ = true;
    network_.changed.notify_all();
  }

 private:
  template <class Predicate>
  void wait(std::unique_lock<std::mutex>& lock, Predicate predicate) {
    network_.changed.wait(lock,
                          [&] { return cancelled_ || !network_.failure.empty() || predicate(); });
    throw_if_over();
  }
  // Under the network's mutex.
  void throw_if_over() const {
    if (cancelled_) throw Error(reason_);
    if (!network_.failure.empty()) throw Error(network_.failure);
  }
  // Under the network's mutex.
  exec::Clock::time_point push(model::DeviceIndex to, exec::MessageTag tag,
                               std::span<const std::byte> payload) {
    const auto now = exec::Clock::now();
    const auto delay = std::chrono::microseconds(
        network_.random() % static_cast<std::uint64_t>(network_.options.max_delay.count() + 1));
    if (network_.tap) network_.tap(self_, to, tag, payload);
    network_.channels[{self_, to}].push_back({tag, {payload.begin(), payload.end()}, now + delay});
    network_.changed.notify_all();
    return now;
  }

  MemoryNetwork& network_;
  model::DeviceIndex self_;
  bool cancelled_ = false;  // under the network's mutex
  std::string reason_;
};

}  // namespace tandem::testing
