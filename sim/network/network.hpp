#pragma once

// A cluster's links in SimGrid. Private to sim/.

#include <cstdint>
#include <optional>
#include <simgrid/s4u/Comm.hpp>
#include <simgrid/s4u/Engine.hpp>
#include <simgrid/s4u/Host.hpp>
#include <simgrid/s4u/Link.hpp>
#include <simgrid/s4u/NetZone.hpp>
#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/predict/analytic.hpp"
#include "sim/network/bottlenecks.hpp"

namespace tandem::sim {

// Links without latency, which a replay adds itself, and a route for each channel in use. At most
// one for an engine; `cluster` must outlive it. If `channels` lists the channels in advance, routes
// omit the links that cannot limit any of them.
class Network {
 public:
  Network(const simgrid::s4u::Engine& engine, const model::Cluster& cluster,
          std::optional<std::vector<model::Channel>> channels);

  // Starts background flows, and sets timers for changes.
  void start_others();

  // Adds a channel's route, once, before its first message. Throws logic_error for one that was not
  // listed.
  void add_route(model::DeviceIndex from, model::DeviceIndex to);

  // Returns a message, not yet started. SimGrid counts whole bytes, as messages do.
  [[nodiscard]] simgrid::s4u::CommPtr message(model::DeviceIndex from, model::DeviceIndex to,
                                              double bytes) const;

 private:
  struct Duplex {
    simgrid::s4u::Link* up;
    simgrid::s4u::Link* down;  // the same unless directions are separate
  };

  void add_link(const model::Link& link, std::size_t index);
  void compete(simgrid::s4u::Link* link);
  [[nodiscard]] simgrid::s4u::Host* host(model::DeviceIndex i) const;

  const model::Cluster* cluster_;
  std::optional<std::vector<model::Channel>> channels_;
  std::optional<Bottlenecks> bottlenecks_;  // if the channels are known
  simgrid::s4u::NetZone* zone_;
  std::vector<simgrid::s4u::Host*> hosts_;
  std::vector<Duplex> links_;
  std::vector<simgrid::s4u::CommPtr> others_;
};

}  // namespace tandem::sim
