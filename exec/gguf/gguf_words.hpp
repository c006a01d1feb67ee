#pragma once

// What GGUF files say of a tokenizer by a name alone.

#include <string_view>
#include <vector>

namespace tandem::exec {

// How llama.cpp cuts texts into words for a `tokenizer.ggml.pre`.
struct GgufWords {
  std::vector<std::string_view> names{};     // the first is written
  std::vector<std::string_view> patterns{};  // applied in order; text between matches stays
  bool ignore_merges = false;                // words of the vocabulary are not put together
  bool adds_bos = false;                     // where the file does not say it
};
[[nodiscard]] const std::vector<GgufWords>& known_gguf_words();

// Returns whether white space behind `token` belongs to it in a file whose general.name is
// `model_name`.
[[nodiscard]] bool gguf_takes_space_behind(std::string_view model_name, std::string_view token);

}  // namespace tandem::exec
