#include "exec/transport/unauthenticated.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <memory>

#include "exec/transport/connection_link.hpp"
#include "model/base/descriptor.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

using boost::asio::ip::tcp;

constexpr Counterpart kListener{
    .command = "tandem pair --listen",
    .handshake = "`tandem pair --listen`; check the port, workers have another one"};
constexpr Counterpart kJoiner{.command = "tandem pair --join",
                              .handshake = "`tandem pair --join` of another device"};

}  // namespace

Connection connect_unauthenticated(const Endpoint& endpoint, const Patience& patience) {
  Connection connection =
      open_connection(endpoint, to_text(endpoint), /*far=*/true, kListener, patience);
  connection.link().tls = Tls::unauthenticated_client(connection.descriptor());
  shake_hands(connection, kListener, patience);
  return connection;
}

std::optional<Connection> accept_unauthenticated(const ListenSocket& socket,
                                                 const Patience& patience) {
  // A client that leaves between poll() and accept() would block the latter.
  const int flags = ::fcntl(socket.descriptor(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.descriptor(), F_SETFL, flags | O_NONBLOCK) != 0)
    throw Error("listen " + to_text(socket.endpoint()) + ": " +
                model::system_fault(errno, "try again"));
  for (;;) {
    if (patience.cancellation != nullptr) patience.cancellation->check();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        std::min<Clock::duration>(patience.deadline - Clock::now(), std::chrono::hours(1)));
    if (left.count() <= 0) return std::nullopt;
    std::array<pollfd, 2> set{{
        {.fd = socket.descriptor(), .events = POLLIN, .revents = 0},
        {.fd = patience.cancellation != nullptr ? patience.cancellation->descriptor() : -1,
         .events = POLLIN,
         .revents = 0},
    }};
    if (::poll(set.data(), set.size(), static_cast<int>(left.count())) <= 0) continue;
    tcp::endpoint remote;
    auto size = static_cast<socklen_t>(remote.capacity());
    model::Descriptor client(
        ::accept4(socket.descriptor(), remote.data(), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client.is_open()) {
      if (!model::is_exhaustion(errno)) continue;  // it left, or was no client
      throw Error("listen " + to_text(socket.endpoint()) + ": " +
                  model::system_fault(errno, "try again"));
    }
    remote.resize(size);
    const std::string name = to_text({.host = remote.address().to_string(), .port = remote.port()});
    Connection connection(std::make_unique<Connection::Link>(client.release(), name));
    connection.link().tls = Tls::unauthenticated_server(connection.descriptor());
    return connection;
  }
}

void shake_hands_unauthenticated(Connection& client, const Patience& patience) {
  shake_hands(client, kJoiner, patience);
}

ChannelBinding channel_binding(Connection& connection) {
  require(connection.link().tls.has_value(), "channel binding: a connection without TLS");
  return connection.link().tls->channel_binding();
}

}  // namespace tandem::exec
