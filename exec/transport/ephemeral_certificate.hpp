#pragma once

// Private to transport/.

#include <openssl/ssl.h>

#include <cstddef>

namespace tandem::exec {

// Gives `context` a new P-256 key and a certificate that it signs itself. It names nothing and
// proves nothing; it is what both ends of an unauthenticated connection bind a proof to. False if
// OpenSSL refuses.
[[nodiscard]] bool use_ephemeral_certificate(SSL_CTX* context);

// SHA-256 of the certificate in DER, into `digest`. False without a certificate.
[[nodiscard]] bool digest_certificate(const X509* certificate, std::byte* digest);

}  // namespace tandem::exec
