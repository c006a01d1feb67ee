#pragma once

// Renders conversations as the text format that a model was trained on.

#include <filesystem>
#include <string>
#include <vector>

namespace tandem::exec {

struct ChatMessage {
  std::string role{};  // "system", "user", "assistant" or "tool"
  std::string content{};
  // Further fields, in the text of a JSON object ({"tool_calls": [...]}); "content" there replaces
  // the one above. Empty: none.
  std::string fields{};
};

// Further inputs of templates.
struct ChatSettings {
  std::string bos_token{};
  std::string eos_token{};
  std::string date{};  // today's, YYYY-MM-DD, for templates that show it; empty: the real one
};

// Returns the text of `messages` by a model's template (Jinja with the settings of Hugging Face's
// transformers: trimmed blocks, no documents), ended by the prompt for the model's answer. `tools`:
// a list in JSON, as transformers takes it; empty: none. Throws Error (line or name, what was
// expected) for a template that is not valid, not UTF-8 or longer than 1 MiB, uses unsupported
// features, rejects the messages, renders more than 16 MiB, or exceeds the budget of
// template_budget.hpp: 4 million steps, 4 GiB read, values of 1 GiB in all.
[[nodiscard]] std::string apply_chat_template(const std::string& chat_template,
                                              const std::vector<ChatMessage>& messages,
                                              const ChatSettings& settings,
                                              const std::string& tools = {});

}  // namespace tandem::exec
