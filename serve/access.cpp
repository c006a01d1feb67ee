#include "serve/access.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <optional>

#include "model/base/error.hpp"

namespace tandem::serve {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

bool is_digits(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<boost::asio::ip::address> numeric(std::string_view host) {
  boost::system::error_code fault;
  const auto address = boost::asio::ip::make_address(std::string(host), fault);
  if (fault) return std::nullopt;
  return address;
}

}  // namespace

bool is_loopback(std::string_view host) {
  if (equal(host, "localhost")) return true;
  const auto address = numeric(host);
  return address && address->is_loopback();
}

bool is_numeric(std::string_view host) { return numeric(host).has_value(); }

std::string host_of(std::string_view header) {
  std::string_view host = header;
  std::string_view behind;
  if (header.starts_with('[')) {
    const std::size_t end = header.find(']');
    if (end == std::string_view::npos) return {};
    host = header.substr(1, end - 1);
    behind = header.substr(end + 1);
  } else if (const std::size_t colon = header.find(':'); colon != std::string_view::npos) {
    host = header.substr(0, colon);
    behind = header.substr(colon);
  }
  if (!behind.empty() && (behind.front() != ':' || !is_digits(behind.substr(1)))) return {};
  return std::string(host);
}

bool is_own_host(std::string_view header, const OwnHosts& own) {
  const std::string host = host_of(header);
  if (host.empty()) return false;
  if (is_loopback(host) || equal(host, own.listening)) return true;
  if (std::ranges::any_of(own.names, [&](const std::string& name) { return equal(host, name); }))
    return true;
  const auto listening = numeric(own.listening);
  return listening && listening->is_unspecified() && numeric(host);
}

std::string_view without_scheme(std::string_view uri) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (uri.size() > scheme.size() && equal(uri.substr(0, scheme.size()), scheme))
      return uri.substr(scheme.size());
  }
  return {};
}

bool is_own_origin(std::string_view header, const OwnHosts& own) {
  return is_own_host(without_scheme(header), own);
}

bool is_json(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.remove_suffix(1);
  return equal(type, "application/json");
}

bool bears(std::string_view header, std::string_view token) {
  constexpr std::string_view kScheme = "Bearer ";
  if (header.size() != kScheme.size() + token.size() ||
      !equal(header.substr(0, kScheme.size()), kScheme))
    return false;
  unsigned differs = 0;
  for (std::size_t i = 0; i < token.size(); ++i)
    differs |= static_cast<unsigned>(static_cast<unsigned char>(header[kScheme.size() + i]) ^
                                     static_cast<unsigned char>(token[i]));
  return differs == 0;
}

std::string parse_token(std::string_view text, const std::string& source) {
  constexpr std::size_t kLeast = 16;
  constexpr std::size_t kMost = 512;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  const bool good = text.size() >= kLeast && text.size() <= kMost &&
                    std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
  if (good) return std::string(text);
  throw Error(source + ": a text of " + std::to_string(text.size()) +
              " bytes, expected one line of 16 to 512 printable characters without spaces; make "
              "one with 'openssl rand -hex 24'");
}

}  // namespace tandem::serve
