#pragma once

// `--dtype`: the format of weights.

#include <optional>

#include "cli/flags/options.hpp"
#include "model/weight_format.hpp"

namespace tandem::cli {

// What `--dtype` says; nothing if it is not given. Throws Usage for a format that there is not.
[[nodiscard]] std::optional<model::WeightFormats> dtype_of(const Options& options);

}  // namespace tandem::cli
