#pragma once

// What Control holds of one peer. Private to transport/.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/transport/control.hpp"
#include "exec/transport/frame_reader.hpp"

namespace tandem::exec {

struct Received {
  Message message;
  std::size_t bytes = 0;  // what it takes in the queue, about
};

struct WatchedPeer {
  static constexpr std::size_t kMaxQueuedBytes = std::size_t{8} << 20;  // a direction
  static constexpr std::size_t kIdleBytes = 4096;  // that an empty queue may keep

  explicit WatchedPeer(ControlPeer peer)
      : device(peer.device), connection(std::move(peer.connection)) {}

  model::DeviceIndex device;
  Connection connection;
  Clock::time_point heard = Clock::now();  // when its last byte came
  bool spoke = false;                      // one has
  Clock::time_point taken = heard;         // when it last took a byte, or owed us none
  Heartbeat said;                          // its last one
  Clock::time_point moved = heard;         // when its ticks last changed
  FrameReader reader;
  std::deque<Received> inbox;
  std::size_t inbox_bytes = 0;
  std::vector<std::byte> outbox;
  std::size_t written = 0;    // of the outbox
  std::size_t in_flight = 0;  // written, and not acknowledged when that was last looked at
  bool said_goodbye = false;
  bool got_goodbye = false;
  bool dead = false;  // no more reading or writing
  std::string fault;  // why it is, unless it ended well

  [[nodiscard]] std::size_t unsent() const { return outbox.size() - written; }
  [[nodiscard]] bool full() const { return inbox_bytes > kMaxQueuedBytes; }

  void queue(std::span<const std::byte> frame) {
    if (!dead) outbox.insert(outbox.end(), frame.begin(), frame.end());
  }

  // Writes what the kernel takes. True if it took something.
  bool flush() {
    const std::size_t before = unsent();
    while (!dead && unsent() > 0) {
      const std::size_t bytes = connection.write_some(std::span(outbox).subspan(written));
      if (bytes == 0) break;
      written += bytes;
    }
    const std::size_t after = unsent();
    if (after == 0 && outbox.capacity() > kIdleBytes) {
      outbox = {};  // what weights were sent from
      written = 0;
    } else if (written > outbox.size() / 2) {
      outbox.erase(outbox.begin(), outbox.begin() + static_cast<std::ptrdiff_t>(written));
      written = 0;
    }
    if (after < before) taken = Clock::now();
    return after < before;
  }

  // Whether it takes what is sent: the kernel reports what the peer's kernel has acknowledged.
  void look_whether_it_reads(Clock::time_point now) {
    const std::size_t waiting = connection.unsent_bytes();
    if (said.behind || waiting < in_flight || waiting + unsent() == 0) taken = now;
    in_flight = waiting;
  }

  void hear(const Heartbeat& heartbeat) {
    if (heartbeat.ticks != said.ticks) moved = Clock::now();
    said = heartbeat;
  }

  void end() {
    dead = true;
    outbox.clear();
    written = 0;
  }
};

}  // namespace tandem::exec
