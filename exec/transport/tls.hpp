#pragma once

// The one place that knows OpenSSL. Private to transport/.

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "exec/transport/key.hpp"
#include "exec/transport/wire.hpp"

namespace tandem::exec::tls {

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using Ssl = std::unique_ptr<SSL, FreeSsl>;

// The TLS end of one connection on the non-blocking `descriptor`. The pre-shared key is derived from
// `key` and the two roles (HMAC-SHA256 of the identity "tandem/1 <client> to <server>"), so that a
// peer with the key can still not answer in another role than its own. Throws Error if OpenSSL
// refuses.
[[nodiscard]] Ssl client(int descriptor, const Key& key, Role self, Role peer);
// Accepts clients of both roles.
[[nodiscard]] Ssl server(int descriptor, const Key& key, Role self);

enum class Progress { done, wants_read, wants_write, failed };

// One step of the handshake. `done` only if the key was really used, with the one cipher and
// version that we allow; then `client_role` of a server says who the client proved to be.
[[nodiscard]] Progress handshake(SSL* ssl);
[[nodiscard]] Role client_role(const SSL* ssl);

// OpenSSL's reason for the last failure of this thread, and forgets it.
[[nodiscard]] std::string last_fault();

}  // namespace tandem::exec::tls
