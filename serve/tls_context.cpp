#include "serve/tls_context.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>

#include "model/base/error.hpp"

namespace tandem::serve {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};

// OpenSSL asks for a passphrase on the terminal unless it gets an answer here.
int no_passphrase(char* /*buffer*/, int /*size*/, int /*rwflag*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

std::unique_ptr<EVP_PKEY, Free> read_key(const TlsFiles& files) {
  const std::unique_ptr<BIO, Free> text(
      BIO_new_mem_buf(files.key.data(), static_cast<int>(files.key.size())));
  bool asked = false;
  std::unique_ptr<EVP_PKEY, Free> key(
      PEM_read_bio_PrivateKey(text.get(), nullptr, &no_passphrase, &asked));
  ERR_clear_error();
  if (asked)
    throw Error(files.key_name +
                ": encrypted, expected a private key without a passphrase; decrypt it with "
                "'openssl pkey -in IN -out OUT'");
  if (key == nullptr)
    throw Error(files.key_name +
                ": no private key, expected one in PEM ('-----BEGIN PRIVATE KEY-----'); give the "
                "key of the certificate");
  return key;
}

}  // namespace

std::shared_ptr<boost::asio::ssl::context> tls_context(const TlsFiles& files) {
  namespace ssl = boost::asio::ssl;
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX* const native = context->native_handle();
  if (SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION) != 1)
    throw Error("TLS: OpenSSL does not offer version 1.2 or later, expected it to; update OpenSSL");
  context->set_options(ssl::context::default_workarounds | ssl::context::no_compression |
                       SSL_OP_NO_RENEGOTIATION);
  boost::system::error_code fault;
  context->use_certificate_chain(boost::asio::buffer(files.certificate), fault);
  if (fault)
    throw Error(
        files.certificate_name + ": no certificate that can be used (" + fault.message() +
        "), expected one in PEM ('-----BEGIN CERTIFICATE-----'), then those of its issuers; "
        "make one with 'openssl req -x509'");
  const auto key = read_key(files);
  const bool fits =
      SSL_CTX_use_PrivateKey(native, key.get()) == 1 && SSL_CTX_check_private_key(native) == 1;
  ERR_clear_error();
  if (!fits)
    throw Error(files.key_name + ": not the private key of the certificate in " +
                files.certificate_name + ", expected that; give two files that belong together");
  return context;
}

}  // namespace tandem::serve
