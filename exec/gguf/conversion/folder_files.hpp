#pragma once

// The small files of a Hugging Face folder, written from what a GGUF file says.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "exec/tokenizer/vocabulary.hpp"

namespace tandem::exec {

// Names and contents: tokenizer.model or tokenizer.json, and tokenizer_config.json; none of a
// vocabulary of bytes. load_tokenizer makes the same tokens of them.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> tokenizer_files(
    const Vocabulary& vocabulary, const std::string& chat_template);

// The chat template in the folder's tokenizer_config.json (of several by name, the one called
// "default"), or chat_template.jinja; empty: none.
[[nodiscard]] std::string folder_chat_template(const std::filesystem::path& folder);

}  // namespace tandem::exec
