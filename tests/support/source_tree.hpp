#pragma once

#include <filesystem>
#include <string_view>

namespace tandem::testing {

// Where these sources and what was built of them lie. Said by one file alone: what every file is
// told when it is compiled makes it another file, for a cache of compilations, in every copy of the
// tree.

// A file or folder of the sources, given relative to their root.
[[nodiscard]] std::filesystem::path in_sources(std::string_view path);
// The built program of this name.
[[nodiscard]] std::filesystem::path program(std::string_view name = "tandem");

}  // namespace tandem::testing
