#pragma once

// The flags '--cache' and '--cache-size', which several commands have.

#include <cstdint>
#include <filesystem>
#include <optional>

#include "cli/flags/options.hpp"

namespace tandem::cli {

inline constexpr Flag kCacheSizeFlag{"cache-size", "SIZE",
                                     "how much of them at most [what the disk holds]"};

inline constexpr Flag kVerifyFlag{
    "verify", "", "hash cached weights, even if their files are those that were hashed before"};

struct Cache {
  std::filesystem::path folder;  // empty: neither a flag nor the environment names one
  std::optional<std::uint64_t> bytes;
};
// Throws Error for a size that is none.
[[nodiscard]] Cache cache_of(const Options& options);

}  // namespace tandem::cli
