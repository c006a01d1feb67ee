#pragma once

// What a Connection holds. Private to transport/.

#include <optional>
#include <string>
#include <string_view>

#include "exec/transport/connection.hpp"
#include "exec/transport/tls.hpp"

namespace tandem::exec {

struct Connection::Link {
  // Takes the connected socket; makes it non-blocking and immediate (TCP_NODELAY).
  Link(int socket, std::string peer);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link();

  int descriptor;
  std::string name;
  std::optional<Tls> tls;
};

// What is expected at the other end of a connection, for messages.
struct Counterpart {
  std::string_view command;    // that listens there
  std::string_view handshake;  // "a tandem worker with the same key; copy ..."
};

// Resolves `endpoint` and opens a TCP connection, called `name` in messages, to the first of its
// addresses that answers; without `far`, to loopback addresses only. Throws Error (name, reason,
// remedy).
[[nodiscard]] Connection open_connection(const Endpoint& endpoint, const std::string& name,
                                         bool far, const Counterpart& expected,
                                         const Patience& patience);

// Goes on with the handshake of the link's TLS until it is done. Throws Error (peer, reason, what
// was expected).
void shake_hands(Connection& connection, const Counterpart& expected, const Patience& patience);

// Throws Error naming `address` unless it is a loopback address: without a key nothing else is
// safe.
void require_loopback(bool is_loopback, const std::string& address);

}  // namespace tandem::exec
