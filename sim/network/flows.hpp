#pragma once

// The transport of a replay's messages over shared links, and its clock. Private to sim/.

#include <cstdint>
#include <functional>

#include "model/cluster/cluster.hpp"

namespace tandem::sim {

class Flows {
 public:
  using ChannelNumber = std::int32_t;
  virtual ~Flows() = default;

  // Sets the function called when the last byte of a channel's message has left. Call it once,
  // first.
  virtual void on_sent(std::function<void(ChannelNumber)> sent) = 0;
  // Returns the time in seconds; 0 at first.
  [[nodiscard]] virtual double now() const = 0;
  // Schedules a call of `what` at a future `time`.
  virtual void at(double time, std::function<void()> what) = 0;
  // Adds a channel, once each; returns its number, from 0.
  virtual ChannelNumber add_channel(model::DeviceIndex from, model::DeviceIndex to) = 0;
  // Starts `channel`'s next message now; the previous one must have left. Bytes are whole.
  virtual void send(ChannelNumber channel, double bytes) = 0;
  // Runs until no message is in flight and no call is scheduled.
  virtual void run() = 0;
};

}  // namespace tandem::sim
