#pragma once

// What a Connection holds. Private to transport/.

#include <optional>
#include <string>

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

// Throws Error naming `address` unless it is a loopback address: without a key nothing else is
// safe.
void require_loopback(bool is_loopback, const std::string& address);

}  // namespace tandem::exec
