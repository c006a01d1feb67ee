#pragma once

// The config.json of a model folder for other programs.

#include <optional>
#include <string>

#include "model/transformer/transformer.hpp"

namespace tandem::model {

// Returns to_config_json(), which has everything that tandem uses, extended for Hugging Face
// transformers, llama.cpp and vLLM: `architectures`, the class of the model; the activation of
// gated FFNs; `torch_dtype`, unless `dtype` is absent (tensors of several types); and null for
// special tokens that the model does not have and for which the classes would otherwise assume
// numbers. parse_config_json() restores `transformer`.
[[nodiscard]] std::string to_folder_config_json(const Transformer& transformer,
                                                std::optional<DType> dtype);

}  // namespace tandem::model
