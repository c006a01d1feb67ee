#pragma once

// Opens the data connections that a plan's graphs use.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/transport/listener.hpp"
#include "exec/transport/tcp_transport.hpp"
#include "model/graph/memory.hpp"
#include "model/graph/task_graph.hpp"

namespace tandem::exec {

struct ChannelId {
  model::DeviceIndex from = 0;
  model::DeviceIndex to = 0;
  auto operator<=>(const ChannelId&) const = default;
};

// The channels of `rooms`, which are of device `self`, ascending, each once.
[[nodiscard]] std::vector<ChannelId> channels_of(std::span<const model::ChannelRoom> rooms,
                                                 model::DeviceIndex self);

struct MeshOptions {
  model::DeviceIndex self = 0;
  model::DeviceIndex master = 0;
  SessionId session{};
  std::vector<ChannelId> channels{};     // of self
  std::vector<std::string> addresses{};  // by device, as in Peers
  std::optional<Key> key{};
  DeviceNames names{};
  std::chrono::milliseconds dial{5'000};  // for one peer to answer
};

// Returns the next client that has come to this device, welcomed.
using NextClient = std::function<std::optional<Incoming>(const Patience& patience)>;

// Opens both kinds of ends, at the same time as every other device does: the master connects to the
// workers, a worker to workers of greater index, all at once; the rest come through `next` (empty
// on the master), welcomed already. Connections of strangers or other sessions are dropped. Throws
// Error if a peer does not answer, or naming the channels that are missing at the deadline.
[[nodiscard]] std::vector<ChannelEnd> open_channels(const MeshOptions& options,
                                                    const NextClient& next,
                                                    const Patience& patience);

}  // namespace tandem::exec
