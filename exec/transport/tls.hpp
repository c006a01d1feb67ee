#pragma once

// The one place that knows OpenSSL's connections. Private to transport/.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "exec/transport/key.hpp"
#include "exec/transport/wire.hpp"

namespace tandem::exec {

// TLS state over a non-blocking socket that it does not own. Move-only; one thread at a time.
class Tls {
 public:
  enum class Progress { done, wants_read, wants_write, closed, failed };

  // The pre-shared key is HMAC-SHA256(key, identity) with the identity "tandem/1 <role of the
  // client> to <role of the server>": a peer that has the key still cannot be taken for another
  // role than its own. A server accepts clients of both roles. Throws Error if OpenSSL refuses.
  static Tls client(int descriptor, const Key& key, Role self, Role peer);
  static Tls server(int descriptor, const Key& key, Role self);
  Tls(Tls&&) noexcept;
  Tls& operator=(Tls&&) noexcept;
  ~Tls();

  // One step. `done` only if the key was really used, with the only version and cipher we allow.
  Progress handshake();
  // Of a server after `done`: the role that the client proved.
  [[nodiscard]] Role client_role() const;

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
