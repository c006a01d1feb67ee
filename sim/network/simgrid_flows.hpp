#pragma once

// Messages over SimGrid. Private to sim/, for a child process only: there is one engine a process.

#include <deque>
#include <functional>
#include <optional>
#include <simgrid/s4u/Comm.hpp>
#include <simgrid/s4u/Engine.hpp>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/predict/analytic.hpp"
#include "sim/network/flows.hpp"
#include "sim/network/network.hpp"

namespace tandem::sim {

class SimGridFlows final : public Flows {
 public:
  // `channels` as for Network. `cluster` outlives it.
  SimGridFlows(const model::Cluster& cluster, std::optional<std::vector<model::Channel>> channels);

  void on_sent(std::function<void(ChannelNumber)> sent) override;
  [[nodiscard]] double now() const override;
  void at(double time, std::function<void()> what) override;
  ChannelNumber add_channel(model::DeviceIndex from, model::DeviceIndex to) override;
  void send(ChannelNumber channel, double bytes) override;
  void run() override;

 private:
  struct Sender {
    model::DeviceIndex from = 0;
    model::DeviceIndex to = 0;
    ChannelNumber number = 0;
    simgrid::s4u::CommPtr comm;  // the message in flight
  };

  simgrid::s4u::Engine* engine_;
  Network network_;
  std::deque<Sender> senders_;  // at stable addresses: messages point to them
};

}  // namespace tandem::sim
