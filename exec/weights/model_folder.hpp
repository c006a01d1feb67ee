#pragma once

// A Hugging Face folder as the weights of a model that is already known, from a plan.

#include <filesystem>

#include "model/transformer.hpp"

namespace tandem::exec {

class SafetensorsFolder;  // exec/weights/safetensors.hpp

// Throws Error unless `folder` has a config.json that states `transformer`, its name apart: sizes
// alone do not show another rope base, epsilon, or split of the same matrices into heads. Names
// every field that differs, with both values.
void check_config(const std::filesystem::path& folder, const model::Transformer& transformer);

// The tensors of `folder`, after check_config: the way to weights for everything that computes with
// them.
[[nodiscard]] SafetensorsFolder open_weights(const std::filesystem::path& folder,
                                             const model::Transformer& transformer);

}  // namespace tandem::exec
