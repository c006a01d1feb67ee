#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::exec {

// A regular expression that splits texts into words, run by PCRE2 with Unicode's classes. White
// space (\s) is Unicode's property White_Space, as in the engines that vocabularies were trained
// with. Const functions may be called by several threads at once.
class SplitPattern {
 public:
  enum class Gaps { keep, drop };  // text between matches

  // `literal`: the pattern is a text, not an expression. `source` is the prefix of errors. Throws
  // Error if the pattern does not compile.
  SplitPattern(const std::string& pattern, bool literal, Gaps gaps, std::string source);

  // Returns the parts of each of `texts`, valid UTF-8, from left to right: every match, and the
  // text between matches if it is kept; no empty parts. Throws Error if the search takes more steps
  // than reasonable patterns need.
  [[nodiscard]] std::vector<std::string_view> split(std::span<const std::string_view> texts) const;

  // Returns the given pattern.
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] bool is_literal() const { return literal_; }
  [[nodiscard]] Gaps gaps() const { return gaps_; }

 private:
  class Search;
  struct Free {
    void operator()(void* code) const;
  };
  std::string text_;
  bool literal_;
  std::string source_;
  Gaps gaps_;
  std::unique_ptr<void, Free> code_;
};

}  // namespace tandem::exec
