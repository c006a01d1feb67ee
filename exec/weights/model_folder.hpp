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

// The formats in which `weights`, those of `transformer`, are stored: of each matrix f16 or bf16 if
// all its tensors are, else f32, to which every stored type widens exactly.
[[nodiscard]] model::WeightFormats stored_formats(const SafetensorsFolder& weights,
                                                  const model::Transformer& transformer);

// What is said of weights that the formats of `transformer` round, one sentence; empty if their
// numbers stay as they are stored.
[[nodiscard]] std::string rounding_remark(const SafetensorsFolder& weights,
                                          const model::Transformer& transformer);

}  // namespace tandem::exec
