#pragma once

#include <cstdint>
#include <string>

#include "exec/gguf/gguf_file.hpp"

namespace tandem::exec {

// Returns the vocabulary's size: the rows of token_embd.weight. Throws Error (file, key or tensor,
// value, expected, remedy) if there is no such matrix, or if ARCHITECTURE.vocab_size or the length
// of tokenizer.ggml.tokens is another number: converters pad the list to the rows, unlike the files
// of a folder, whose tokenizer may have fewer tokens than the model.
[[nodiscard]] std::int64_t gguf_vocabulary_size(const GgufFile& file,
                                                const std::string& architecture);

}  // namespace tandem::exec
