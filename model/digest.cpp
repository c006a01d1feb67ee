#include "model/digest.hpp"

#include <openssl/evp.h>

#include <array>

#include "model/error.hpp"

namespace tandem::model {

std::string sha256_hex(std::span<const std::byte> bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int length = 0;
  const int ok =
      EVP_Digest(bytes.data(), bytes.size(), hash.data(), &length, EVP_sha256(), nullptr);
  if (ok != 1) throw Error("SHA-256: OpenSSL has no such digest, expected one; check OpenSSL");
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(std::size_t{2} * length);
  for (unsigned int i = 0; i < length; ++i) {
    text += kDigits[hash[i] >> 4U];
    text += kDigits[hash[i] & 15U];
  }
  return text;
}

std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace tandem::model
