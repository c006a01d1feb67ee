#pragma once

// `--cache-type`: in what keys and values are kept.

#include "cli/flags/options.hpp"
#include "model/transformer/cache_format.hpp"

namespace tandem::cli {

inline constexpr Flag kCacheTypeFlag{"cache-type", "TYPE",
                                     "keys and values kept in f32, f16 [f32]"};
// Of commands that may have a plan.
inline constexpr Flag kOwnCacheTypeFlag{"cache-type", "TYPE",
                                        "without a plan: keys and values in f32, f16 [f32]"};

// What `--cache-type` says, f32 if it is not given. Throws Usage for a type that there is not.
[[nodiscard]] model::CacheFormat cache_type_of(const Options& options);

}  // namespace tandem::cli
