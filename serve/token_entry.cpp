#include "serve/token_entry.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "model/base/plain_text.hpp"

namespace tandem::serve {
namespace {

using Json = nlohmann::ordered_json;

// As in OpenAI's API, whose JSON has no infinity either.
constexpr double kLeastLogprob = -9999.0;

std::string escaped(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "bytes:";
  for (const char byte : bytes) {
    const auto code = static_cast<unsigned char>(byte);
    text += {'\\', 'x', kDigits[code >> 4U], kDigits[code & 15U]};
  }
  return text;
}

ShownToken shown_token(const exec::Tokenizer& tokenizer, const exec::TokenLogprob& token) {
  const double logprob = std::max(token.logprob, kLeastLogprob);
  std::string piece = tokenizer.piece(token.id);
  if (piece.empty())
    return {.text = "token_id:" + std::to_string(token.id), .bytes = {}, .logprob = logprob};
  const bool whole = model::not_utf8(piece) == std::string_view::npos;
  return {.text = whole ? piece : escaped(piece), .bytes = std::move(piece), .logprob = logprob};
}

Json token_object(const ShownToken& token) {
  Json json{{"token", token.text}, {"logprob", token.logprob}, {"bytes", nullptr}};
  if (!token.bytes) return json;
  json["bytes"] = Json::array();
  for (const char byte : *token.bytes) json["bytes"].push_back(static_cast<unsigned char>(byte));
  return json;
}

}  // namespace

TokenEntry token_entry(const exec::Tokenizer& tokenizer, const exec::TokenLogprobs& logprobs) {
  TokenEntry entry{.chosen = shown_token(tokenizer, logprobs.chosen)};
  for (const exec::TokenLogprob& token : logprobs.best)
    entry.best.push_back(shown_token(tokenizer, token));
  return entry;
}

Json chat_logprobs(std::span<const TokenEntry> entries) {
  Json content = Json::array();
  for (const TokenEntry& entry : entries) {
    Json token = token_object(entry.chosen);
    token["top_logprobs"] = Json::array();
    for (const ShownToken& best : entry.best) token["top_logprobs"].push_back(token_object(best));
    content.push_back(std::move(token));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json text_logprobs(std::span<const TokenEntry> entries, std::int64_t offset) {
  Json json{{"text_offset", Json::array()},
            {"token_logprobs", Json::array()},
            {"tokens", Json::array()},
            {"top_logprobs", Json::array()}};
  for (const TokenEntry& entry : entries) {
    Json best = Json::object();
    for (const ShownToken& token : entry.best) best.emplace(token.text, token.logprob);
    best.emplace(entry.chosen.text, entry.chosen.logprob);
    json["text_offset"].push_back(offset);
    json["token_logprobs"].push_back(entry.chosen.logprob);
    json["tokens"].push_back(entry.chosen.text);
    json["top_logprobs"].push_back(std::move(best));
    offset += characters_of({&entry, 1});
  }
  return json;
}

std::int64_t characters_of(std::span<const TokenEntry> entries) {
  std::int64_t count = 0;
  for (const TokenEntry& entry : entries) {
    const std::string bytes = entry.chosen.bytes.value_or("");
    count += std::ranges::count_if(bytes, [](char byte) {
      return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;  // not within a character
    });
  }
  return count;
}

}  // namespace tandem::serve
