#pragma once

// The tokenizer files of a Hugging Face folder, written from a GGUF file.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "exec/tokenizer/vocabulary.hpp"

namespace tandem::exec {

// Returns names and contents: tokenizer.model or tokenizer.json, and tokenizer_config.json; none
// for a vocabulary of bytes. load_tokenizer produces the same tokens from them.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> tokenizer_files(
    const Vocabulary& vocabulary, const std::string& chat_template);

// Returns the chat template of the folder: from tokenizer_config.json (of several by name,
// "default"), or chat_template.jinja; empty: none.
[[nodiscard]] std::string folder_chat_template(const std::filesystem::path& folder);

}  // namespace tandem::exec
