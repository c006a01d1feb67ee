#pragma once

// Opens the data connections that a plan's graphs use.

#include <optional>
#include <string>
#include <vector>

#include "exec/transport/listener.hpp"
#include "exec/transport/tcp_transport.hpp"
#include "model/task_graph.hpp"

namespace tandem::exec {

struct ChannelId {
  model::DeviceIndex from = 0;
  model::DeviceIndex to = 0;
  auto operator<=>(const ChannelId&) const = default;
};

// The channels of `graph` that start or end at `self`, ascending, each once.
[[nodiscard]] std::vector<ChannelId> channels_of(const model::TaskGraph& graph,
                                                 model::DeviceIndex self);

struct MeshOptions {
  model::DeviceIndex self = 0;
  model::DeviceIndex master = 0;
  SessionId session{};
  std::vector<ChannelId> channels{};     // of self
  std::vector<std::string> addresses{};  // by device, as in Peers
  std::optional<Key> key{};
};

// Opens both kinds of ends, at the same time as every other device does: the master connects to the
// workers, a worker to workers of greater index, and `listener` (null on the master) accepts the
// rest. Connections of strangers or other sessions are dropped. Throws Error naming the channels
// that are missing at the deadline.
[[nodiscard]] std::vector<ChannelEnd> open_channels(const MeshOptions& options, Listener* listener,
                                                    const Patience& patience);

}  // namespace tandem::exec
