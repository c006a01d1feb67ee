#pragma once

// `--dtype`: the format of weights.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flags/options.hpp"
#include "model/transformer/transformer.hpp"
#include "model/transformer/weight_format.hpp"

namespace tandem::cli {

// Returns the one of the `known` formats that `text` names, whatever the case of its letters.
// Throws Usage with the formats, `more`, and, if `text` has a number ("4bit"), the formats of as
// many bits.
[[nodiscard]] std::string format_named(const std::string& text,
                                       const std::vector<std::string_view>& known,
                                       const std::string& more = "");

// The formats that `--dtype` knows: those that are executed, or also those that are only planned.
enum class DTypes : std::uint8_t { executed, planned };

// What `--dtype` says; nothing if it is not given. Remarks on matrices that cannot have it. Throws
// Usage for a format that there is not.
[[nodiscard]] std::optional<model::WeightFormats> dtype_of(const Options& options,
                                                           const model::Transformer& transformer,
                                                           DTypes known = DTypes::executed);

// Returns the formats of a plan, separated by commas, each once; none without the flag. Throws
// Usage for a format that there is not.
[[nodiscard]] std::vector<model::WeightFormats> dtypes_of(const Options& options,
                                                          const model::Transformer& transformer);

}  // namespace tandem::cli
