#pragma once

// The vocabulary in a GGUF file, and what llama.cpp computes of it.

#include "exec/gguf/gguf_file.hpp"
#include "exec/tokenizer/vocabulary.hpp"

namespace tandem::exec {

// Returns the vocabulary of `file`. `tokenizer.ggml.model` llama (SentencePiece), gpt2 (byte-level
// BPE) and bert (WordPiece) are read; without one, or with "no_vocab", tokens are bytes. Throws
// Error (file, key, value, expected, remedy) for another, for a `tokenizer.ggml.pre` that is not
// known (none is assumed), for lists whose lengths differ, and for a key that may change the tokens
// of a text.
[[nodiscard]] Vocabulary gguf_vocabulary(const GgufFile& file);

}  // namespace tandem::exec
