#pragma once

// The metadata of a GGUF file for a model: the inverse of gguf_geometry and gguf_vocabulary.

#include <optional>
#include <string>

#include "exec/gguf/conversion/gguf_writer.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "exec/tokenizer/vocabulary.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// `format`: of all matrices, if they have one. Throws Error for a family without a known GGUF name.
[[nodiscard]] GgufEntries geometry_entries(const model::Transformer& transformer,
                                           std::optional<model::WeightFormat> format);

struct VocabularyEntries {
  GgufEntries entries{};
  std::string name{};  // general.name, by which llama.cpp recognises some tokenizers
  std::string
      lost{};  // one sentence on what the format cannot express and few texts show; empty: nothing
};

// For a folder's tokenizer. Pads the tokens to the model's vocabulary with unused ones.
// `chat_template`: empty if there is none. Throws Error (file, finding, remedy) for what the format
// cannot express: rules of normalisation other than NFC, which is lost; word patterns without a
// `tokenizer.ggml.pre`; tokens around a text other than its first and last; and tokens that absorb
// white space differently from llama.cpp.
[[nodiscard]] VocabularyEntries vocabulary_entries(const Vocabulary& vocabulary,
                                                   const model::Transformer& transformer,
                                                   const std::string& chat_template);

// Returns the tokenizer entries of a GGUF file unchanged.
[[nodiscard]] GgufEntries carried_vocabulary(const GgufFile& file);

}  // namespace tandem::exec
