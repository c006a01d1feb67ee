#include "exec/transport/mesh.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

std::string text_of(const ChannelId& channel, const DeviceNames& names) {
  return name_of(names, channel.from) + " -> " + name_of(names, channel.to);
}

}  // namespace

std::vector<ChannelId> channels_of(std::span<const model::ChannelRoom> rooms,
                                   model::DeviceIndex self) {
  std::set<ChannelId> found;
  for (const model::ChannelRoom& room : rooms) {
    found.insert(
        {.from = room.outgoing ? self : room.peer, .to = room.outgoing ? room.peer : self});
  }
  return {found.begin(), found.end()};
}

std::vector<ChannelEnd> open_channels(const MeshOptions& options, const NextClient& next,
                                      const Patience& patience) {
  std::vector<ChannelEnd> ends;
  std::vector<ChannelId> awaited;
  std::vector<Dial> dials;
  for (const ChannelId& channel : options.channels) {
    const bool sends = channel.from == options.self;
    const model::DeviceIndex peer = sends ? channel.to : channel.from;
    require(channel.from != channel.to && (sends || channel.to == options.self),
            "mesh: a channel of other devices");
    const bool calls =
        options.self == options.master || (peer != options.master && options.self < peer);
    if (!calls) {
      awaited.push_back(channel);
      continue;
    }
    const auto index = static_cast<std::size_t>(peer);
    const std::string subject = name_of(options.names, peer) + ": address";
    if (index >= options.addresses.size()) throw Error(subject + " is missing, expected host:port");
    const Role role = options.self == options.master ? Role::master : Role::worker;
    dials.push_back({.endpoint = parse_endpoint(options.addresses[index], subject),
                     .hello = {.role = role,
                               .purpose = Purpose::channel,
                               .session = options.session,
                               .device = options.self,
                               .peer = peer,
                               .sends = sends}});
  }
  connect_all(dials, options.key,
              {.deadline = std::min(patience.deadline, Clock::now() + options.dial),
               .cancellation = patience.cancellation},
              options.names, [&](std::size_t i, Connection connection) {
                ends.push_back({.peer = dials[i].hello.peer,
                                .sends = dials[i].hello.sends,
                                .connection = std::move(connection)});
              });
  require(awaited.empty() || next, "mesh: a worker needs a door");
  while (!awaited.empty()) {
    std::optional<Incoming> incoming = next(patience);
    if (!incoming) {
      std::string missing;
      for (const ChannelId& channel : awaited) {
        missing += (missing.empty() ? "" : ", ") + text_of(channel, options.names);
      }
      throw Error(name_of(options.names, options.self) + ": channels " + missing +
                  " were not opened in time; check that the devices reach each other");
    }
    const Hello& hello = incoming->hello;
    const ChannelId channel = hello.sends ? ChannelId{.from = hello.device, .to = options.self}
                                          : ChannelId{.from = options.self, .to = hello.device};
    const auto it = std::ranges::find(awaited, channel);
    const bool master_is_master = (hello.device == options.master) == (hello.role == Role::master);
    if (hello.purpose != Purpose::channel || hello.session != options.session ||
        hello.peer != options.self || it == awaited.end() || !master_is_master) {
      continue;  // a stranger: closing its connection is the answer
    }
    awaited.erase(it);
    incoming->connection.rename(name_of(options.names, hello.device));
    ends.push_back({.peer = hello.device,
                    .sends = !hello.sends,
                    .connection = std::move(incoming->connection)});
  }
  return ends;
}

}  // namespace tandem::exec
