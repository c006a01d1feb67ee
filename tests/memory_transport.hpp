#pragma once

// Channels between devices of one process, without sockets: as slow, as reordered and as narrow as
// a test wants them.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/transport/transport.hpp"
#include "model/error.hpp"

namespace tandem::testing {

struct MemoryOptions {
  bool sends_inline = false;
  bool receives_inline = false;
  std::size_t capacity = 1000;             // messages of a channel; beyond, send waits
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
  const MemoryOptions options;
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
    network_.changed.wait(lock,
                          [&] { return cancelled_ || channel.size() < network_.options.capacity; });
    if (cancelled_) throw Error(reason_);
    const auto now = exec::Clock::now();
    const auto delay = std::chrono::microseconds(
        network_.random() % static_cast<std::uint64_t>(network_.options.max_delay.count() + 1));
    channel.push_back({tag, {payload.begin(), payload.end()}, now + delay});
    network_.changed.notify_all();
    return {.sent = now, .arrived = now};
  }

  bool sends_at_once(model::DeviceIndex /*to*/, std::size_t /*bytes*/) const override {
    return network_.options.sends_inline;
  }

  exec::MessageTimes receive(model::DeviceIndex from, exec::MessageTag tag,
                             std::span<std::byte> payload, exec::Clock::time_point deadline,
                             bool /*may_spin*/) override {
    std::unique_lock lock(network_.mutex);
    auto& channel = network_.channels[{from, self_}];
    while (true) {
      if (cancelled_) throw Error(reason_);
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
  MemoryNetwork& network_;
  model::DeviceIndex self_;
  bool cancelled_ = false;  // under the network's mutex
  std::string reason_;
};

}  // namespace tandem::testing
