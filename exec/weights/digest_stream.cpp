#include "exec/weights/digest_stream.hpp"

#include <openssl/evp.h>

#include <string_view>

#include "model/error.hpp"

namespace tandem::exec {

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

std::string DigestStream::hex() { return to_hex(digest()); }

std::string to_hex(const Digest& digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : digest) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4U];
    text += kDigits[std::to_integer<unsigned>(byte) & 15U];
  }
  return text;
}

}  // namespace tandem::exec
