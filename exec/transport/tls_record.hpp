#pragma once

// Recognises a peer that uses a key, and so TLS, where this side expects frames. Private to
// transport/.

#include <cstddef>
#include <span>

namespace tandem::exec {

inline constexpr const char* kOnlyPeerHasKey =
    "it uses a key and this side none; start both with the same --key FILE, or, on one machine, "
    "both without";

// Whether `bytes` begin with a TLS record (RFC 8446, 5.1): content type 20 to 23, version 3.x.
inline bool begins_tls(std::span<const std::byte> bytes) {
  constexpr std::byte kFirst{20};
  constexpr std::byte kLast{23};
  constexpr std::byte kMajor{3};
  return bytes.size() > 1 && bytes[0] >= kFirst && bytes[0] <= kLast && bytes[1] == kMajor;
}

}  // namespace tandem::exec
