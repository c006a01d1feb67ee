#pragma once

// What a GGUF file says of a model: the inverse of gguf_geometry and gguf_vocabulary.

#include <optional>
#include <string>

#include "exec/gguf/conversion/gguf_writer.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "exec/tokenizer/vocabulary.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::exec {

// `format`: of all matrices, if they have one. Throws Error for a family that GGUF has no name for
// here.
[[nodiscard]] GgufEntries geometry_entries(const model::Transformer& transformer,
                                           std::optional<model::WeightFormat> format);

struct VocabularyEntries {
  GgufEntries entries{};
  std::string name{};  // general.name, by which llama.cpp knows some tokenizers
  std::string
      lost{};  // what the format cannot say and few texts show, one sentence; empty: nothing
};

// Of a folder's tokenizer. Tokens are padded to the model's vocabulary with unused ones.
// `chat_template`: empty if there is none. Throws Error (file, what was found, remedy) for what the
// format cannot say: rules of normalisation other than NFC, which is lost, words that no
// `tokenizer.ggml.pre` stands for, other tokens around a text than its first and last, tokens that
// take white space along where llama.cpp has them do otherwise.
[[nodiscard]] VocabularyEntries vocabulary_entries(const Vocabulary& vocabulary,
                                                   const model::Transformer& transformer,
                                                   const std::string& chat_template);

// What a GGUF file says of its tokenizer, as it is.
[[nodiscard]] GgufEntries carried_vocabulary(const GgufFile& file);

}  // namespace tandem::exec
