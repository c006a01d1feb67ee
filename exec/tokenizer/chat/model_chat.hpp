#pragma once

// Conversations with the model of a folder or GGUF file.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "exec/tokenizer/chat/chat_template.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

struct ModelChat {
  std::string chat_template{};  // empty: the model has none
  ChatSettings settings{};
};

// Throws Error for files that are damaged.
[[nodiscard]] ModelChat read_model_chat(const std::filesystem::path& weights);

// The ids of `messages` as the model's template writes them. The template says itself what stands
// around them, so that nothing is added to its text, as Hugging Face's transformers have it. Throws
// Error as apply_chat_template, and if there is no template.
[[nodiscard]] std::vector<std::int32_t> encode_chat(const ModelChat& chat,
                                                    const Tokenizer& tokenizer,
                                                    const std::vector<ChatMessage>& messages);

}  // namespace tandem::exec
