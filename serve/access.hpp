#pragma once

// Who may ask: no web page of another origin, and only bearers of the token where there is one.

#include <string>
#include <string_view>
#include <vector>

namespace tandem::serve {

// Returns whether `address` is a numeric loopback address or "localhost".
[[nodiscard]] bool is_loopback(std::string_view host);

// Returns whether `host` is a numeric address.
[[nodiscard]] bool is_numeric(std::string_view host);

// Returns the host of a Host header ("[::1]:8080" gives "::1"); empty if it is malformed.
[[nodiscard]] std::string host_of(std::string_view header);

// The hosts by which this server may be asked in addition to loopback.
struct OwnHosts {
  std::string listening{};           // the host that is listened on
  std::vector<std::string> names{};  // further ones
};

// Returns whether a Host header names one of them or loopback, or, where all addresses of the
// machine are listened on (0.0.0.0 or ::), is any numeric address. A page whose own name was made
// to resolve to this machine (DNS rebinding) gives that name.
[[nodiscard]] bool is_own_host(std::string_view header, const OwnHosts& own);

// Returns the same for an Origin header ("http://localhost:3000").
[[nodiscard]] bool is_own_origin(std::string_view header, const OwnHosts& own);

// Returns what follows "http://" or "https://" in a URI; empty if it begins with neither.
[[nodiscard]] std::string_view without_scheme(std::string_view uri);

// Returns whether a Content-Type is application/json, with parameters or without.
[[nodiscard]] bool is_json(std::string_view content_type);

// Returns whether an Authorization header bears `token`, in time that does not depend on where they
// differ.
[[nodiscard]] bool bears(std::string_view header, std::string_view token);

// Returns the token in a file: its only line, of 16 to 512 printable ASCII characters without
// spaces. Throws Error naming `source` for anything else.
[[nodiscard]] std::string parse_token(std::string_view text, const std::string& source);

}  // namespace tandem::serve
