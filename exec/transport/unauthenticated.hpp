#pragma once

// Connections between devices that have no key in common yet. TLS encrypts them; who the peer is,
// it does not say: an attacker in between is possible until channel_binding() has been proved.

#include <optional>

#include "exec/transport/connection.hpp"
#include "exec/transport/listener.hpp"
#include "exec/transport/tls.hpp"

namespace tandem::exec {

// Connects to `tandem pair --listen` and shakes hands. Throws Error (address, reason, remedy).
[[nodiscard]] Connection connect_unauthenticated(const Endpoint& endpoint,
                                                 const Patience& patience);

// Accepts the next client, whose handshake is still to be done; nothing at the deadline. Throws
// Error when cancelled and if this process has no means for another connection.
[[nodiscard]] std::optional<Connection> accept_unauthenticated(const ListenSocket& socket,
                                                               const Patience& patience);

// The client's handshake. Throws Error (client, reason).
void shake_hands_unauthenticated(Connection& client, const Patience& patience);

// Throws Error if OpenSSL refuses.
[[nodiscard]] ChannelBinding channel_binding(Connection& connection);

}  // namespace tandem::exec
