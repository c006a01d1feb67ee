#pragma once

// A Hugging Face folder or a GGUF file as the weights of a model.

#include <filesystem>
#include <memory>
#include <string>

#include "model/transformer/transformer.hpp"

namespace tandem::exec {

class WeightSource;  // exec/weights/source/weight_source.hpp

// Reads the geometry from config.json of the folder `weights`, or from the GGUF file `weights`
// including its stored formats. Throws Error (file, field, value, expected, remedy).
[[nodiscard]] model::Transformer read_geometry(const std::filesystem::path& weights);

// Throws Error unless read_geometry(weights) equals `transformer`, except for its name: sizes alone
// do not reveal another rope base, epsilon, or split of the same matrices into heads. Names every
// field that differs, with both values.
void check_config(const std::filesystem::path& weights, const model::Transformer& transformer);

// Opens the tensors of `weights`, after check_config. All code that computes with weights uses it.
[[nodiscard]] std::unique_ptr<const WeightSource> open_weights(
    const std::filesystem::path& weights, const model::Transformer& transformer);

// Returns the stored formats of the tensors of `weights`, those of `transformer`, matrix by matrix
// and layer by layer, whether or not rows and devices' parts of them are whole blocks.
[[nodiscard]] model::WeightFormats tensor_formats(const WeightSource& weights,
                                                  const model::Transformer& transformer);

// Returns the formats in which `weights`, those of `transformer`, can be used as stored: of each
// matrix, layer by layer, its tensor's format if its rows and devices' parts of them are whole
// blocks; else f32, to which every stored type widens exactly.
[[nodiscard]] model::WeightFormats stored_formats(const WeightSource& weights,
                                                  const model::Transformer& transformer);

// Returns a sentence on weights that the formats of `transformer` round; empty if all numbers are
// kept.
[[nodiscard]] std::string rounding_remark(const WeightSource& weights,
                                          const model::Transformer& transformer);

}  // namespace tandem::exec
