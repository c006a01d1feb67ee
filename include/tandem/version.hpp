#pragma once

#include <string_view>

namespace tandem {

// The version of the library that is linked: "0.1.0". Before 1.0, another minor version may change
// these headers.
[[nodiscard]] std::string_view version();

}  // namespace tandem
