#pragma once

// Conversations as the text that a model was trained on.

#include <filesystem>
#include <string>
#include <vector>

namespace tandem::exec {

struct ChatMessage {
  std::string role{};  // "system", "user" or "assistant"
  std::string content{};
};

// What else a template may ask for.
struct ChatSettings {
  std::string bos_token{};
  std::string eos_token{};
  std::string date{};  // of today, YYYY-MM-DD, for templates that tell it; empty: the real one
};

// Returns the text of `messages` by a template of the model (Jinja as Hugging Face's transformers
// have it: blocks trimmed, no tools, no documents), ended by what makes the model answer. Throws
// Error (line or name, what was expected) for a template that is none, no UTF-8 or longer than 1
// MiB, uses what ours does not know, refuses the messages, makes a text of more than 16 MiB, or
// exceeds the budget of template_budget.hpp: 4 million steps, 4 GiB read, values of 1 GiB in all.
[[nodiscard]] std::string apply_chat_template(const std::string& chat_template,
                                              const std::vector<ChatMessage>& messages,
                                              const ChatSettings& settings);

}  // namespace tandem::exec
