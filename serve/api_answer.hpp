#pragma once

// Answers of OpenAI's API, as JSON on one line.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/token_entry.hpp"
#include "serve/tool_text.hpp"

namespace tandem::serve {

// What all parts of an answer repeat.
struct AnswerHead {
  std::string id{};
  std::int64_t created = 0;  // seconds since 1970
  std::string model{};
  bool is_chat = false;
  bool includes_usage = false;  // of a stream
};

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompt, not read again
};

// One of the answers to a prompt.
struct AnswerChoice {
  std::string text{};
  std::vector<ToolCall> calls{};      // of tools
  std::string_view reason{};          // why it ended: "stop", "length" or "tool_calls"
  std::vector<TokenEntry> entries{};  // of its tokens, where log-probabilities are asked for
};

// A whole answer.
[[nodiscard]] std::string answer_json(const AnswerHead& head, std::span<const AnswerChoice> choices,
                                      const Usage& usage);

// Parts of a stream, of the choice with a number: the first of a chat, which names the role; more
// text, whose tokens begin at a number of characters; the last with a reason. And the usage behind
// them.
[[nodiscard]] std::string role_json(const AnswerHead& head, std::size_t choice);
[[nodiscard]] std::string text_json(const AnswerHead& head, std::size_t choice,
                                    const std::string& text, std::span<const TokenEntry> entries,
                                    std::int64_t characters);
// More calls, the first of which has a number in its answer.
[[nodiscard]] std::string calls_json(const AnswerHead& head, std::size_t choice,
                                     std::span<const ToolCall> calls, std::size_t first);
[[nodiscard]] std::string end_json(const AnswerHead& head, std::size_t choice,
                                   std::string_view reason);
[[nodiscard]] std::string usage_json(const AnswerHead& head, const Usage& usage);

[[nodiscard]] std::string error_json(unsigned status, const std::string& message,
                                     const std::string& param = {}, const std::string& code = {});

// Returns the seconds since 1970.
[[nodiscard]] std::int64_t unix_time_s();

// The only model, and the list of it.
[[nodiscard]] std::string model_json(const std::string& model, std::int64_t created);
[[nodiscard]] std::string models_json(const std::string& model, std::int64_t created);

}  // namespace tandem::serve
