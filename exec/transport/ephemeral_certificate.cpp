#include "exec/transport/ephemeral_certificate.hpp"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>

namespace tandem::exec {
namespace {

constexpr long kLifetimeSeconds = 24L * 60 * 60;
constexpr long kVersion3 = 2;

struct FreePrivateKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeCertificate {
  void operator()(X509* certificate) const { X509_free(certificate); }
};

}  // namespace

bool use_ephemeral_certificate(SSL_CTX* context) {
  const std::unique_ptr<EVP_PKEY, FreePrivateKey> key(EVP_EC_gen("P-256"));
  const std::unique_ptr<X509, FreeCertificate> certificate(X509_new());
  return key != nullptr && certificate != nullptr &&
         X509_set_version(certificate.get(), kVersion3) == 1 &&
         ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1) == 1 &&
         // Clocks of boards without a battery are wrong; the peer does not look at the dates.
         X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0) != nullptr &&
         X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kLifetimeSeconds) != nullptr &&
         X509_set_pubkey(certificate.get(), key.get()) == 1 &&
         X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0 &&
         SSL_CTX_use_certificate(context, certificate.get()) == 1 &&
         SSL_CTX_use_PrivateKey(context, key.get()) == 1;
}

bool digest_certificate(const X509* certificate, std::byte* digest) {
  return certificate != nullptr &&
         X509_digest(certificate, EVP_sha256(), reinterpret_cast<unsigned char*>(digest),
                     nullptr) == 1;
}

}  // namespace tandem::exec
