#pragma once

// Two connected ends in one process, for the transport's tests.

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/transport/listener.hpp"
#include "exec/transport/mesh.hpp"
#include "exec/transport/tcp_transport.hpp"
#include "model/base/error.hpp"

namespace tandem::exec::test {

// Seconds: what happens at once happens within them on a busy machine too; what would have to wait
// for a deadline is given a longer one.
inline constexpr double kAtOnce = 20.0;

using std::chrono::milliseconds;

inline Patience within(milliseconds time, const Cancellation* cancellation = nullptr) {
  return {.deadline = Clock::now() + time, .cancellation = cancellation};
}

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What `action` says when it fails; "" if it does not.
template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline Listener local_listener(const std::optional<Key>& key, ListenerOptions options = {}) {
  return {ListenSocket({.host = "127.0.0.1"}, key.has_value()), key, std::move(options)};
}

inline Hello control_hello(model::DeviceIndex worker = 1) {
  Hello hello;
  hello.role = Role::master;
  hello.peer = worker;
  return hello;
}

// As a mesh takes clients in.
inline NextClient client_of(Listener& listener) {
  return [&listener](const Patience& patience) {
    std::optional<Incoming> incoming = listener.accept(patience);
    if (incoming) incoming->welcome();
    return incoming;
  };
}

struct Connected {
  Connection client;
  Connection server;
};

inline Connected connect_pair(const std::optional<Key>& key, const Hello& hello = control_hello()) {
  Listener listener = local_listener(key);
  auto client = std::async(std::launch::async, [&] {
    return connect_to(listener.endpoint(), key, hello, within(milliseconds(5000)));
  });
  std::optional<Incoming> incoming = listener.accept(within(milliseconds(5000)));
  if (!incoming) throw Error("test: nobody came");
  incoming->welcome();
  incoming->connection.rename("device " + std::to_string(hello.device));
  return {.client = client.get(), .server = std::move(incoming->connection)};
}

// The transports of all devices of a mesh, device 0 the master.
struct Mesh {
  std::vector<std::shared_ptr<Cancellation>> cancellations;
  std::vector<std::unique_ptr<TcpTransport>> devices;
};

inline Mesh open_mesh(int devices, const std::vector<ChannelId>& channels,
                      const std::optional<Key>& key, const TcpOptions& tcp = {},
                      const std::function<void(Connection&)>& adjust = {}) {
  MeshOptions base;
  base.session = random_session();
  base.key = key;
  base.addresses.emplace_back();
  std::vector<std::optional<Listener>> listeners(static_cast<std::size_t>(devices));
  for (std::size_t i = 1; i < listeners.size(); ++i) {
    listeners[i].emplace(local_listener(key));
    base.addresses.push_back(to_text(listeners[i]->endpoint()));
  }
  std::vector<std::future<std::vector<ChannelEnd>>> opening;
  for (int self = 0; self < devices; ++self) {
    MeshOptions options = base;
    options.self = self;
    for (const ChannelId& channel : channels) {
      if (channel.from == self || channel.to == self) options.channels.push_back(channel);
    }
    auto& listener = listeners[static_cast<std::size_t>(self)];
    opening.push_back(std::async(std::launch::async, [options, &listener] {
      return open_channels(options, listener ? client_of(*listener) : NextClient(),
                           within(milliseconds(10000)));
    }));
  }
  Mesh mesh;
  for (int self = 0; self < devices; ++self) {
    std::vector<ChannelEnd> ends = opening[static_cast<std::size_t>(self)].get();
    for (ChannelEnd& end : ends) {
      if (adjust) adjust(end.connection);
    }
    mesh.cancellations.push_back(std::make_shared<Cancellation>());
    mesh.devices.push_back(
        std::make_unique<TcpTransport>(self, std::move(ends), mesh.cancellations.back(), tcp));
  }
  return mesh;
}

}  // namespace tandem::exec::test
