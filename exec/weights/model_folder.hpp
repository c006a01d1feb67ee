#pragma once

// A Hugging Face folder or a GGUF file as the weights of a model.

#include <filesystem>
#include <memory>
#include <string>

#include "model/transformer/transformer.hpp"

namespace tandem::exec {

class WeightSource;  // exec/weights/source/weight_source.hpp

// What the config.json of the folder `weights`, or the GGUF file `weights`, says; of a file with
// the formats that it is stored in. Throws Error (file, field, value, expected, remedy).
[[nodiscard]] model::Transformer read_geometry(const std::filesystem::path& weights);

// Throws Error unless read_geometry(weights) is `transformer`, its name apart: sizes alone do not
// show another rope base, epsilon, or split of the same matrices into heads. Names every field that
// differs, with both values.
void check_config(const std::filesystem::path& weights, const model::Transformer& transformer);

// The tensors of `weights`, after check_config: the way to weights for everything that computes
// with them.
[[nodiscard]] std::unique_ptr<const WeightSource> open_weights(
    const std::filesystem::path& weights, const model::Transformer& transformer);

// What the tensors of `weights`, those of `transformer`, are stored in, matrix by matrix and layer
// by layer, whether or not rows and devices' parts of them are whole blocks.
[[nodiscard]] model::WeightFormats tensor_formats(const WeightSource& weights,
                                                  const model::Transformer& transformer);

// The formats in which `weights`, those of `transformer`, are stored: of each matrix, layer by
// layer, the one that its tensor has, if its rows and devices' parts of them are whole blocks; else
// f32, to which every stored type widens exactly.
[[nodiscard]] model::WeightFormats stored_formats(const WeightSource& weights,
                                                  const model::Transformer& transformer);

// What is said of weights that the formats of `transformer` round, one sentence; empty if their
// numbers stay as they are stored.
[[nodiscard]] std::string rounding_remark(const WeightSource& weights,
                                          const model::Transformer& transformer);

}  // namespace tandem::exec
