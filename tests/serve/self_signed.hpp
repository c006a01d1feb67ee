#pragma once

// A self-signed certificate, made for a test, and a client that trusts it alone.

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace tandem::testing {

// PEM of a certificate for localhost and 127.0.0.1 and of its key.
struct SelfSigned {
  SelfSigned() {
    const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> own(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const std::unique_ptr<X509, void (*)(X509*)> made(X509_new(), X509_free);
    X509_set_version(made.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), 3600);
    X509_set_pubkey(made.get(), own.get());
    X509_NAME* const name = X509_get_subject_name(made.get());
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(made.get(), name);
    const std::unique_ptr<X509_EXTENSION, void (*)(X509_EXTENSION*)> names(
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1"),
        X509_EXTENSION_free);
    X509_add_ext(made.get(), names.get(), -1);
    X509_sign(made.get(), own.get(), EVP_sha256());
    certificate = text([&](BIO* to) { PEM_write_bio_X509(to, made.get()); });
    key = text([&](BIO* to) {
      PEM_write_bio_PrivateKey(to, own.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
    encrypted_key = text([&](BIO* to) {
      PEM_write_bio_PKCS8PrivateKey(to, own.get(), EVP_aes_128_cbc(), "secret", 6, nullptr,
                                    nullptr);
    });
    client.reset(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_clear_mode(client.get(), SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_verify(client.get(), SSL_VERIFY_PEER, nullptr);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(client.get()), made.get());
  }
  std::string certificate;
  std::string key;
  std::string encrypted_key;
  struct Free {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  std::unique_ptr<SSL_CTX, Free> client;

 private:
  template <class Write>
  static std::string text(const Write& write) {
    const std::unique_ptr<BIO, void (*)(BIO*)> memory(BIO_new(BIO_s_mem()), BIO_free_all);
    write(memory.get());
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(memory.get(), &bytes);
    return {bytes, static_cast<std::size_t>(size)};
  }
};

}  // namespace tandem::testing
