#pragma once

// The config.json of a model folder that other programs read, too.

#include <optional>
#include <string>

#include "model/transformer/transformer.hpp"

namespace tandem::model {

// Returns to_config_json(), which says all that tandem computes with, and what Hugging Face
// transformers, llama.cpp and vLLM need in addition: `architectures`, the class that computes the
// model; the activation of gated FFNs; `torch_dtype`, unless `dtype` is absent (tensors of several
// types); and null for the special tokens that the model does not have, where the classes would
// otherwise assume numbers of their own. parse_config_json() gives `transformer` back.
[[nodiscard]] std::string to_folder_config_json(const Transformer& transformer,
                                                std::optional<DType> dtype);

}  // namespace tandem::model
