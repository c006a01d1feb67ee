#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::exec {

struct Endpoint {
  std::string host;  // name or address; IPv6 without brackets
  std::uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
};

inline constexpr std::size_t kMaxAddressBytes = 280;  // of an endpoint's text

// "host:port" or "[ipv6]:port". Port 0 is accepted only if `any_port` (to listen on any free one).
// Throws Error naming `subject`, the text and the form expected.
[[nodiscard]] Endpoint parse_endpoint(std::string_view text, std::string_view subject,
                                      bool any_port = false);
[[nodiscard]] std::string to_text(const Endpoint& endpoint);

}  // namespace tandem::exec
