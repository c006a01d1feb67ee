#pragma once

// Tokens of an answer with their log-probabilities, as OpenAI's API shows them.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/compute/logprobs.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::serve {

struct ShownToken {
  // Its text; "bytes:\xe2\x80" for bytes that are no whole characters, "token_id:2" for a token
  // without text.
  std::string text{};
  std::optional<std::string> bytes{};  // absent: without text
  double logprob = 0.0;                // natural logarithm, at least -9999
};

// A token of an answer, and the likeliest tokens at its place.
struct TokenEntry {
  ShownToken chosen{};
  std::vector<ShownToken> best{};
};

[[nodiscard]] TokenEntry token_entry(const exec::Tokenizer& tokenizer,
                                     const exec::TokenLogprobs& logprobs);

// Returns the field `logprobs` of a choice of a chat.
[[nodiscard]] nlohmann::ordered_json chat_logprobs(std::span<const TokenEntry> entries);
// Returns the same of a text completion, whose first token begins at `offset` characters of the
// answer. Alternatives include the token itself.
[[nodiscard]] nlohmann::ordered_json text_logprobs(std::span<const TokenEntry> entries,
                                                   std::int64_t offset);

// Returns the number of characters that begin in the tokens.
[[nodiscard]] std::int64_t characters_of(std::span<const TokenEntry> entries);

}  // namespace tandem::serve
