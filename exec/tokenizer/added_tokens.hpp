#pragma once

// Tokens that are looked for in a text before it is split in any other way: special tokens.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::exec {

// One token, as Hugging Face's tokenizers describe it.
struct AddedToken {
  std::string text;
  std::int64_t id = -1;
  bool single_word = false;  // only where no letter, digit or underscore is next to it
  bool lstrip = false;       // takes white space in front of it along
  bool rstrip = false;       // and behind it
  bool normalized = false;   // is looked for after normalisation
  bool special = true;       // has no text of its own in the output

  bool operator==(const AddedToken&) const = default;
};

// A part of a text: a token, or text between tokens.
struct Fragment {
  std::string_view text;
  std::int64_t id = -1;  // -1: text
};

// Which of tokens that overlap in a text is found, and what is white space beside one.
enum class TokenSearch {
  leftmost,  // of those the longest, as in Hugging Face's tokenizers; white space is Unicode's
  longest    // of those the leftmost, as in llama.cpp; white space is ASCII's
};

class AddedTokens {
 public:
  // Tokens without text are never found.
  explicit AddedTokens(std::vector<AddedToken> tokens = {},
                       TokenSearch search = TokenSearch::leftmost);

  // Parts of `text`, valid UTF-8, from left to right, as TokenSearch says. Empty parts are left
  // out. With `special` false special tokens are text. A view of `text`.
  [[nodiscard]] std::vector<Fragment> split(std::string_view text, bool special = true) const;
  [[nodiscard]] bool empty() const { return tokens_.empty(); }

 private:
  [[nodiscard]] const AddedToken* token_at(std::string_view text, std::size_t at,
                                           bool special) const;
  [[nodiscard]] std::vector<Fragment> split_by_length(std::string_view text, bool special) const;

  TokenSearch search_;
  std::vector<AddedToken> tokens_;          // by first byte, then by descending length
  std::array<std::uint32_t, 257> begin_{};  // of each first byte
  std::vector<std::size_t> turn_;           // of each token, if the longest comes first
};

}  // namespace tandem::exec
