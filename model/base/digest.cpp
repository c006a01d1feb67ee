#include "model/base/digest.hpp"

#include <openssl/evp.h>

#include "model/base/error.hpp"

namespace tandem::model {

struct DigestStream::Context {
  Context() : evp(EVP_MD_CTX_new()) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { EVP_MD_CTX_free(evp); }
  EVP_MD_CTX* evp;
};

DigestStream::DigestStream() : context_(std::make_unique<Context>()) {
  require(context_->evp != nullptr && EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1,
          "SHA-256: OpenSSL offers none");
}
DigestStream::DigestStream(DigestStream&&) noexcept = default;
DigestStream& DigestStream::operator=(DigestStream&&) noexcept = default;
DigestStream::~DigestStream() = default;

void DigestStream::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1,
          "SHA-256: OpenSSL cannot continue");
}

Digest DigestStream::digest() {
  Digest digest{};
  unsigned int size = 0;
  require(EVP_DigestFinal_ex(context_->evp, reinterpret_cast<unsigned char*>(digest.data()),
                             &size) == 1 &&
              size == digest.size(),
          "SHA-256: OpenSSL cannot finish");
  return digest;
}

std::string to_hex(const Digest& digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : digest) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4U];
    text += kDigits[std::to_integer<unsigned>(byte) & 15U];
  }
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  DigestStream stream;
  stream.update(bytes);
  return to_hex(stream.digest());
}

std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace tandem::model
