#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/transformer/transformer.hpp"

namespace tandem::cli {

// The geometry that M names: a Hugging Face folder, a GGUF file (with its formats), a config.json,
// or a name in scenarios/models.
// Throws Error (M, what was looked for, the known names).
[[nodiscard]] model::Transformer load_model(const std::string& name);

// The file with that geometry. Throws likewise.
[[nodiscard]] std::filesystem::path find_config(const std::string& name);

// The folder or GGUF file of weights that `name` names: a name in scenarios/models that comes with
// weights, unless a file of that name exists; else `name` itself, whether or not it exists.
[[nodiscard]] std::filesystem::path find_weights(const std::string& name);

// The same for commands that cannot do without weights. Throws Error if there is no such path, or
// if `name` is a geometry in scenarios/models.
[[nodiscard]] std::filesystem::path weights_of(const std::string& name);

// weights_of, checked: its config.json, or the file, states `planned`. Throws Error as
// exec::check_config.
[[nodiscard]] std::filesystem::path weights_for(const std::string& name,
                                                const model::Transformer& planned);

// The names in scenarios/models, geometries and folders, sorted.
[[nodiscard]] std::vector<std::string> known_models();

}  // namespace tandem::cli
