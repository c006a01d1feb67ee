#pragma once

// The vocabulary of a GGUF file, interpreted as by llama.cpp.

#include "exec/gguf/gguf_file.hpp"
#include "exec/tokenizer/vocabulary.hpp"

namespace tandem::exec {

// Returns the vocabulary of `file`. Supports `tokenizer.ggml.model` llama (SentencePiece), gpt2
// (byte-level BPE) and bert (WordPiece); without one, or with "no_vocab", tokens are bytes. Throws
// Error (file, key, value, expected, remedy) for another, for an unknown `tokenizer.ggml.pre` (none
// is assumed), for lists of different lengths, and for a key that may change the tokens of a text.
[[nodiscard]] Vocabulary gguf_vocabulary(const GgufFile& file);

}  // namespace tandem::exec
