#pragma once

// Conversations with the model of a folder or GGUF file.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "exec/tokenizer/chat/chat_template.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

struct ModelChat {
  std::string chat_template{};  // empty: the model has none
  ChatSettings settings{};
};

// Throws Error for damaged files.
[[nodiscard]] ModelChat read_model_chat(const std::filesystem::path& weights);

// Returns the ids of `messages` rendered by the model's template. The template itself writes the
// tokens around them, so nothing is added, as in Hugging Face's transformers. Special tokens in the
// messages and tools are text, unlike there: what a user writes does not command the model. Throws
// Error as apply_chat_template, if there is no template, and for a template that does not show
// the tools, calls or results of tools that it is given. `begun`: the answer's beginning, behind
// the prompt for it, whose special tokens are those of the template.
[[nodiscard]] std::vector<std::int32_t> encode_chat(const ModelChat& chat,
                                                    const Tokenizer& tokenizer,
                                                    const std::vector<ChatMessage>& messages,
                                                    const std::string& tools = {},
                                                    std::string_view begun = {});

}  // namespace tandem::exec
