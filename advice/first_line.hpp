#pragma once

#include <string>

namespace tandem::study {

// Returns `text` up to its first line break.
[[nodiscard]] inline std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace tandem::study
