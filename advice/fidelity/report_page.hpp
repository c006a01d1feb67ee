#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "advice/fidelity/recording.hpp"

namespace tandem::study {

struct PageFacts {
  std::string title;                                      // which half of the configurations
  std::vector<std::pair<std::string, std::string>> rows;  // "machine", ...: what the page is of
  std::vector<std::string> missing;  // configurations without a recording, with the reason
};

// The page of `tandem fidelity`: facts, summary, distribution, predicted against measured, by
// factor, by task kind and lane, every configuration. One file: inline SVG, one style sheet, whose
// hash its Content-Security-Policy allows, nothing else.
[[nodiscard]] std::string fidelity_page(const std::vector<Recording>& recordings,
                                        const PageFacts& facts);

// Base64 of the digest that `hex` spells, as a Content-Security-Policy has it (RFC 4648).
[[nodiscard]] std::string base64_of_hex(std::string_view hex);

}  // namespace tandem::study
