#pragma once

// Limits of what clients may ask of the server.

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tandem::serve {

struct HttpLimits {
  std::size_t connections = 1024;
  std::size_t refused = 256;  // beyond those, while they are answered so; more are closed
  std::uint32_t header_bytes = 16U << 10U;
  std::uint64_t body_bytes = std::uint64_t{4} << 20U;
  std::chrono::milliseconds handshake_time{10'000};  // of TLS
  std::chrono::milliseconds header_time{10'000};     // from the first wait for it to its end
  std::chrono::milliseconds body_time{30'000};
  std::chrono::milliseconds idle_time{60'000};       // between requests of a connection
  std::chrono::milliseconds write_time{30'000};      // of what there is to write at once
  std::size_t unread_bytes = std::size_t{1} << 20U;  // of an answer, beyond which a client is cut
};

}  // namespace tandem::serve
