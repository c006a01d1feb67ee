#pragma once

// Requests of OpenAI's API: chat and text completions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "exec/tokenizer/chat/chat_template.hpp"
#include "planner/plan/sampling.hpp"
#include "serve/api_error.hpp"
#include "serve/tool_request.hpp"

namespace tandem::serve {

struct ApiRequest {
  bool is_chat = false;
  std::vector<exec::ChatMessage> messages{};  // of a chat
  ToolRequest tools{};                        // of a chat
  // Of a text completion: a text or its tokens.
  std::variant<std::string, std::vector<std::int32_t>> prompt{};
  std::string model{};                             // empty: not named
  std::optional<std::int64_t> max_tokens{};        // absent: the server's usual limit
  planner::Sampling sampling{.temperature = 1.0};  // without the seed
  std::optional<std::uint64_t> seed{};             // absent: a random one
  std::int64_t choices = 1;                        // independent answers
  std::vector<std::string> stops{};
  // Log-probabilities of each token, and of this number of likeliest ones; absent: none.
  std::optional<std::size_t> logprobs{};
  // A JSON schema that the answer conforms to; absent: any text.
  std::optional<std::string> schema{};
  bool streams = false;
  bool includes_usage = false;  // a stream ends with the usage
};

// Parses the body of /v1/chat/completions. Parameters that have no effect at the value that they
// have (suffix: "", store: false, ...) are accepted. Throws ApiError 400 naming the parameter for
// any other that is unknown or not supported, and for values out of range.
[[nodiscard]] ApiRequest parse_chat_request(std::string_view body);
// The same for /v1/completions.
[[nodiscard]] ApiRequest parse_completion_request(std::string_view body);

}  // namespace tandem::serve
