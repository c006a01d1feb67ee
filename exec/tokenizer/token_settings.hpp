#pragma once

// Token settings in the small files of a Hugging Face folder.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/tokenizer/added_tokens.hpp"
#include "model/base/json_value.hpp"

namespace tandem::exec {

struct TokenSettings {
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  bool legacy = false;  // of LlamaTokenizer: text behind a special token begins a new word
  std::optional<bool> prefix_space;  // a text begins with a space
  // The three below are BertTokenizer's.
  std::optional<bool> lower_case;
  std::optional<bool> strip_accents;
  bool chinese_alone = true;  // each Chinese character is a word
  // Texts of tokens with a role; empty: not stated.
  std::string bos;
  std::string eos;
  std::string unknown;
  std::string front;  // BERT's [CLS] and [SEP]
  std::string back;
  std::vector<AddedToken> tokens;   // with ids
  std::vector<std::string> named;   // further special tokens, without ids
  std::vector<std::int64_t> stops;  // ids, of generation_config.json
  // The class of Hugging Face's tokenizer, and the file that states it; empty: not stated.
  std::string tokenizer_class;
  std::string class_source;

  // Throws Error unless the class is not stated or one of `known`, with or without the suffix
  // "Fast": those that read `file` as tandem does.
  void expect_class(std::span<const std::string_view> known, std::string_view file) const;

  // Returns `stops` and `end` (-1: none), ascending.
  [[nodiscard]] std::vector<std::int64_t> end_tokens(std::int64_t end) const;
};

struct SettingsFile {
  std::string path;
  std::string text;
};

// Parses tokenizer_config.json, special_tokens_map.json, added_tokens.json and
// generation_config.json, as far as they are among `files`; the first takes precedence. Of
// config.json reads only the tokenizer's class. Throws Error (file, remedy) for a damaged file, for
// a token with two ids, and for an unknown field of tokenizer_config.json, as it may change the
// tokens.
[[nodiscard]] TokenSettings parse_token_settings(std::span<const SettingsFile> files);

// Parses those of these files that `folder` has, by parse_token_settings().
[[nodiscard]] TokenSettings read_token_settings(const std::filesystem::path& folder);

// Parses a token of tokenizer_config.json and tokenizer.json: {"content": ..., "lstrip": ...}.
[[nodiscard]] AddedToken parse_added_token(const model::JsonValue& value, std::int64_t id);

// Returns a token's text for an error: in quotes, without control characters, truncated.
[[nodiscard]] std::string shown_token(std::string_view text);

// Limits of files: the longest text of a token and the largest number of added ones.
inline constexpr std::size_t kMaxTokenBytes = 1U << 16U;
inline constexpr std::size_t kMaxAddedTokens = 1U << 16U;
inline constexpr std::int64_t kMaxTokenId = (std::int64_t{1} << 31) - 1;

}  // namespace tandem::exec
