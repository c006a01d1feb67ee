#pragma once

// The vocabulary in a GGUF file, and what llama.cpp computes of it.

#include <string_view>
#include <vector>

#include "exec/gguf/gguf_file.hpp"
#include "exec/tokenizer/vocabulary.hpp"

namespace tandem::exec {

// How llama.cpp cuts texts into words for a `tokenizer.ggml.pre`.
struct GgufWords {
  std::vector<std::string_view> names{};     // the first is written
  std::vector<std::string_view> patterns{};  // one after the other; what lies between stays
  bool ignore_merges = false;                // words of the vocabulary are not put together
  bool adds_bos = false;                     // where the file does not say it
};
[[nodiscard]] const std::vector<GgufWords>& known_gguf_words();

// Whether white space behind `token` belongs to it in a file whose general.name is `model_name`.
[[nodiscard]] bool gguf_takes_space_behind(std::string_view model_name, std::string_view token);

// `tokenizer.ggml.model` llama (SentencePiece) and gpt2 (byte-level BPE) are read; without one, or
// with "no_vocab", tokens are bytes. Throws Error (file, key, value, expected, remedy) for another,
// for a `tokenizer.ggml.pre` that is not known (none is assumed), for lists whose lengths differ,
// and for a key that may change the tokens of a text.
[[nodiscard]] Vocabulary gguf_vocabulary(const GgufFile& file);

}  // namespace tandem::exec
