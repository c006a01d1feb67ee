#pragma once

// The one place that knows OpenSSL's connections. Private to transport/.

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "exec/transport/key.hpp"
#include "exec/transport/wire.hpp"

namespace tandem::exec {

// What identifies one TLS connection to both of its ends: the exporter of RFC 9266 and the SHA-256
// of the server's and of the client's certificate, 32 bytes each. Somebody who ends the connection
// in between has two connections with different values.
using ChannelBinding = std::array<std::byte, 96>;

// TLS state over a non-blocking socket that it does not own. Move-only; one thread at a time.
class Tls {
 public:
  enum class Progress { done, wants_read, wants_write, closed, failed };

  // The pre-shared key is HMAC-SHA256(key, identity) with the identity "tandem/1 <role of the
  // client> to <role of the server>". What that proves: both ends hold the key, and agree on which
  // role each of them plays here; what one connection says cannot be replayed on one of other
  // roles. What it does not: whoever holds the one shared key can derive it for any identity, and
  // so play any role, as any device. A server accepts clients of both roles. Throws Error if
  // OpenSSL refuses.
  static Tls client(int descriptor, const Key& key, Role self, Role peer);
  static Tls server(int descriptor, const Key& key, Role self);
  // Without a key: each end shows a certificate made for this connection and accepts any. Nothing
  // is known of the peer until it proves by other means that it has the same channel_binding().
  static Tls unauthenticated_client(int descriptor);
  static Tls unauthenticated_server(int descriptor);
  Tls(Tls&&) noexcept;
  Tls& operator=(Tls&&) noexcept;
  ~Tls();

  // One step, which never waits. `done` only if the key was really used (without one: if the peer
  // has shown a certificate), with the only version and cipher we allow.
  Progress handshake();
  // Of a server after `done`: the role that the client plays in this connection.
  [[nodiscard]] Role client_role() const;
  // Of an unauthenticated connection after `done`. Throws Error if OpenSSL refuses.
  [[nodiscard]] ChannelBinding channel_binding() const;

  Progress read(std::span<std::byte> into, std::size_t& bytes);
  Progress write(std::span<const std::byte> from, std::size_t& bytes);
  // After `failed`: OpenSSL's reason.
  [[nodiscard]] const std::string& fault() const;

 private:
  struct State;
  explicit Tls(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tandem::exec
