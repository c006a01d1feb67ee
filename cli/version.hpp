#pragma once

#include <string_view>

namespace tandem::cli {

// Version and source revision of this build: "0.1.0 (69f26ec)", "+" after a revision with changes.
[[nodiscard]] std::string_view version();

}  // namespace tandem::cli
