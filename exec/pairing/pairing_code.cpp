#include "exec/pairing/pairing_code.hpp"

#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kCodeDigits = 8;
constexpr std::uint32_t kCodes = 100'000'000;
constexpr std::size_t kFingerprintBytes = 16;

std::string hyphenated(const std::string& digits) {
  return digits.substr(0, kCodeDigits / 2) + '-' + digits.substr(kCodeDigits / 2);
}

}  // namespace

std::string random_pairing_code() {
  constexpr std::uint32_t kUnbiased = UINT32_MAX / kCodes * kCodes;
  std::uint32_t drawn = kUnbiased;
  while (drawn >= kUnbiased) {
    std::array<unsigned char, sizeof drawn> bytes{};
    if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
      throw Error("pairing: the system has no random bytes; try again");
    std::memcpy(&drawn, bytes.data(), bytes.size());
  }
  const std::string digits = std::to_string(drawn % kCodes);
  return hyphenated(std::string(kCodeDigits - digits.size(), '0') + digits);
}

std::string parse_pairing_code(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c != ' ' && c != '\t' && c != '\r' && c != '-') digits += c;
  }
  const bool decimal = std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  if (!decimal || digits.size() != kCodeDigits)
    throw Error(
        "pairing: what was typed is no code, expected eight digits such as 4821-9370; type the one "
        "that the other device shows");
  return hyphenated(digits);
}

std::string fingerprint_of(const ChannelBinding& binding) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(binding.data()), binding.size(), digest.data());
  std::string text;
  for (std::size_t i = 0; i < kFingerprintBytes; ++i) {
    if (i > 0 && i % 2 == 0) text += ' ';
    text += kDigits[digest.at(i) >> 4U];
    text += kDigits[digest.at(i) & 15U];
  }
  return text;
}

}  // namespace tandem::exec
