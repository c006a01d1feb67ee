#pragma once

// Tokens that are found in a text before it is split in any other way: special tokens.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

// One token, as Hugging Face's tokenizers describe it.
struct AddedToken {
  std::string text;
  std::int64_t id = -1;
  bool single_word = false;  // only without a letter, digit or underscore next to it
  bool lstrip = false;       // absorbs white space in front of it
  bool rstrip = false;       // absorbs white space behind it
  bool normalized = false;   // is searched after normalisation
  bool special = true;       // has no text of its own in the output

  bool operator==(const AddedToken&) const = default;
};

// A part of a text: a token, or text between tokens.
struct Fragment {
  std::string_view text;
  std::int64_t id = -1;  // -1: text
};

// The search for overlapping tokens in a text, and the definition of white space beside them.
enum class TokenSearch {
  leftmost,  // then the longest, as in Hugging Face's tokenizers; white space is Unicode's
  longest    // then the leftmost, as in llama.cpp; white space is ASCII's
};

// Returns a fragment's text, of a text that is encoded as `written` says: without the marks of
// AddedTokens::guarded() if it is guarded.
[[nodiscard]] std::string unguarded(std::string_view text, WrittenTokens written);

class AddedTokens {
 public:
  // Tokens without text are never found.
  explicit AddedTokens(std::vector<AddedToken> tokens = {},
                       TokenSearch search = TokenSearch::leftmost);

  // Returns the parts of `text`, valid UTF-8, from left to right, as views, by TokenSearch; no
  // empty parts. With `special` false special tokens are text.
  [[nodiscard]] std::vector<Fragment> split(std::string_view text, bool special = true) const;
  // Returns `text` with a mark inside of each special token in it, so that split() finds none.
  // Tokens of one character become U+FFFD.
  [[nodiscard]] std::string guarded(std::string_view text) const;
  [[nodiscard]] bool empty() const { return tokens_.empty(); }

 private:
  [[nodiscard]] const AddedToken* token_at(std::string_view text, std::size_t at,
                                           bool special) const;
  [[nodiscard]] std::vector<Fragment> split_by_length(std::string_view text, bool special) const;

  TokenSearch search_;
  std::vector<AddedToken> tokens_;          // by first byte, then by descending length
  std::array<std::uint32_t, 257> begin_{};  // of each first byte
  std::vector<std::size_t> turn_;           // search order of tokens, for TokenSearch::longest
};

}  // namespace tandem::exec
