#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem::serve {

// What a request asks for (RFC 9112, 3.2).
struct RequestTarget {
  std::string path{};       // without a query; "*" for the server as a whole
  std::string authority{};  // host and port of an absolute URI; empty: none
};

// Returns the parts of "/path?query", of "http://host:port/path?query" or of "*"; nothing for any
// other target.
[[nodiscard]] std::optional<RequestTarget> parse_target(std::string_view target);

}  // namespace tandem::serve
