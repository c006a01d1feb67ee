#pragma once

#include <filesystem>
#include <string>

#include "model/transformer.hpp"

namespace tandem::cli {

// The geometry that M names: a Hugging Face folder, a config.json, or a name in scenarios/models.
// Throws Error (M, what was looked for, the known names).
[[nodiscard]] model::Transformer load_model(const std::string& name);

}  // namespace tandem::cli
