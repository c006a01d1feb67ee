#include "exec/transport/endpoint.hpp"

#include <algorithm>
#include <charconv>

#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kMaxHostBytes = 255;  // RFC 1035

bool host_character(char c, bool bracketed) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_' || (bracketed && (c == ':' || c == '%'));
}

}  // namespace

Endpoint parse_endpoint(std::string_view text, std::string_view subject, bool any_port) {
  const auto fail = [&](const std::string& fault) {
    throw Error(std::string(subject) + ": '" + model::printable(text, kMaxAddressBytes) + "' " +
                fault + ", expected host:port, such as 192.168.1.7:7700 or [::1]:7700");
  };
  const bool bracketed = text.starts_with('[');
  const std::size_t colon = bracketed ? text.find("]:") : text.find(':');
  if (colon == std::string_view::npos) fail("has no port");
  const std::string_view host = bracketed ? text.substr(1, colon - 1) : text.substr(0, colon);
  const std::string_view port = text.substr(colon + (bracketed ? 2 : 1));
  if (host.empty() || host.size() > kMaxHostBytes || host.starts_with('-') ||
      !std::all_of(host.begin(), host.end(),
                   [&](char c) { return host_character(c, bracketed); })) {
    fail("has no valid host");
  }
  Endpoint endpoint{.host = std::string(host)};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (error != std::errc{} || end != port.data() + port.size() ||
      (endpoint.port == 0 && !any_port)) {
    fail("has no port from 1 to 65535");
  }
  return endpoint;
}

std::string to_text(const Endpoint& endpoint) {
  std::string text = endpoint.host;
  if (text.find(':') != std::string::npos) text.insert(0, 1, '[').push_back(']');
  return text.append(":").append(std::to_string(endpoint.port));
}

}  // namespace tandem::exec
