#pragma once

// The server's identity for TLS.

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

namespace tandem::serve {

struct TlsFiles {
  std::string certificate{};  // PEM: the server's certificate, then those of its issuers
  std::string certificate_name{};
  std::string key{};  // PEM, without a passphrase
  std::string key_name{};
};

// Returns the settings of the server's TLS, 1.2 or later. Throws Error naming the file that is not
// what it should be, or both if the key is not the certificate's.
[[nodiscard]] std::shared_ptr<boost::asio::ssl::context> tls_context(const TlsFiles& files);

}  // namespace tandem::serve
