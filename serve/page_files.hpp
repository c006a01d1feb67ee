#pragma once

// The page at "/": files of serve/page, compiled into the program.

#include <string_view>

namespace tandem::serve {

struct PageFile {
  std::string_view path;  // of its URL
  std::string_view content_type;
  std::string_view text;
};

// Returns the file at `path` of a URL; null if there is none.
[[nodiscard]] const PageFile* find_page_file(std::string_view path);

// Header lines of every file of the page: scripts, styles and connections of this server only, and
// no frames.
inline constexpr std::string_view kPageHeaders =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-cache\r\n";

}  // namespace tandem::serve
