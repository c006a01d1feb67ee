#pragma once

// Answers of OpenAI's API, as JSON on one line.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api_request.hpp"

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

// A whole answer. `reason`: "stop" or "length".
[[nodiscard]] std::string answer_json(const AnswerHead& head, const std::string& text,
                                      std::string_view reason, const Usage& usage);

// Parts of a stream: the first of a chat, which names the role; more text; the last with a reason;
// and the usage behind it.
[[nodiscard]] std::string role_json(const AnswerHead& head);
[[nodiscard]] std::string text_json(const AnswerHead& head, const std::string& text);
[[nodiscard]] std::string end_json(const AnswerHead& head, std::string_view reason);
[[nodiscard]] std::string usage_json(const AnswerHead& head, const Usage& usage);

[[nodiscard]] std::string error_json(unsigned status, const std::string& message,
                                     const std::string& param = {}, const std::string& code = {});

// The only model, and the list of it.
[[nodiscard]] std::string model_json(const std::string& model, std::int64_t created);
[[nodiscard]] std::string models_json(const std::string& model, std::int64_t created);

}  // namespace tandem::serve
