#pragma once

// `--cache-type`: in what keys and values are kept.

#include <optional>

#include "cli/flags/options.hpp"
#include "model/transformer/cache_format.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::cli {

inline constexpr Flag kCacheTypeFlag{
    "cache-type", "TYPE",
    "keys and values kept in f32, f16, q8_0 [f16 where weights have 16 bits or fewer, else f32]"};
// Of commands that may have a plan.
inline constexpr Flag kOwnCacheTypeFlag{
    "cache-type", "TYPE",
    "without a plan: keys and values in f32, f16, q8_0 [f16 where weights have 16 bits or fewer, "
    "else f32]"};

// Returns `--cache-type`, if it is given. Throws Error for another type.
[[nodiscard]] std::optional<model::CacheFormat> given_cache_type(const Options& options);
// Returns it, or the default of the model's weights.
[[nodiscard]] model::CacheFormat cache_type_of(const Options& options,
                                               const model::Transformer& transformer);

}  // namespace tandem::cli
