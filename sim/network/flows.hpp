#pragma once

// What carries the bytes of a replay's messages over shared links, and its clock. Private to sim/.

#include <cstdint>
#include <functional>

#include "model/cluster/cluster.hpp"

namespace tandem::sim {

class Flows {
 public:
  using ChannelNumber = std::int32_t;
  virtual ~Flows() = default;

  // Has `sent` called when the last byte of a channel's message has left. To be called once, first.
  virtual void on_sent(std::function<void(ChannelNumber)> sent) = 0;
  // Seconds; 0 at first.
  [[nodiscard]] virtual double now() const = 0;
  // Has `what` called at `time`, which is to come.
  virtual void at(double time, std::function<void()> what) = 0;
  // To be called once a channel. They are numbered from 0 on.
  virtual ChannelNumber add_channel(model::DeviceIndex from, model::DeviceIndex to) = 0;
  // The first byte of `channel`'s message leaves now; the last of the message before has left.
  // Bytes are whole.
  virtual void send(ChannelNumber channel, double bytes) = 0;
  // Until no message is on its way and nothing is left to be called.
  virtual void run() = 0;
};

}  // namespace tandem::sim
