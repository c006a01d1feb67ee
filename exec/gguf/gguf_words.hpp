#pragma once

// Properties of tokenizers that GGUF files identify by a name only.

#include <string_view>
#include <vector>

namespace tandem::exec {

// llama.cpp's splitting of texts into words for a `tokenizer.ggml.pre`.
struct GgufWords {
  std::vector<std::string_view> names{};     // the first is written
  std::vector<std::string_view> patterns{};  // applied in order; text between matches stays
  bool ignore_merges = false;                // words in the vocabulary are tokens without merging
  bool adds_bos = false;                     // default if the file does not state it
};
[[nodiscard]] const std::vector<GgufWords>& known_gguf_words();

// Returns whether `token` absorbs the white space behind it in a file whose general.name is
// `model_name`.
[[nodiscard]] bool gguf_takes_space_behind(std::string_view model_name, std::string_view token);

}  // namespace tandem::exec
