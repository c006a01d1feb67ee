#include "exec/tokenizer/chat/lexer.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "exec/tokenizer/chat/characters.hpp"
#include "exec/tokenizer/chat/literals.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "model/base/error.hpp"

namespace tandem::exec::chat {
namespace {

std::string with_plain_lines(std::string_view source) {
  std::string lines;
  for (std::size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      lines += source[at];
    } else if (!source.substr(at + 1).starts_with('\n')) {
      lines += '\n';
    }
  }
  return lines;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> read() {
    while (at_ < source_.size()) {
      const std::size_t open = next_tag();
      if (open == source_.size()) {
        add(Token::Kind::data, std::string(source_.substr(at_)));
        break;
      }
      const char kind = source_[open + 1];
      begin_tag(open, kind == '{');
      if (kind == '#') {
        skip_comment();
      } else if (kind == '%' && skip_raw_begin()) {
        take_raw();
      } else {
        take_tag(kind == '{');
      }
    }
    add(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  void add(Token::Kind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_});
  }

  // Moves on, counting lines.
  void move_to(std::size_t at) {
    line_ += static_cast<int>(std::ranges::count(source_.substr(at_, at - at_), '\n'));
    at_ = at;
  }

  [[nodiscard]] bool is_at(std::string_view text) const {
    return source_.substr(at_).starts_with(text);
  }

  [[nodiscard]] std::size_t next_tag() const {
    std::size_t open = source_.find('{', at_);
    while (open != std::string_view::npos &&
           (open + 1 == source_.size() ||
            std::string_view("{%#").find(source_[open + 1]) == std::string_view::npos))
      open = source_.find('{', open + 1);
    return std::min(open, source_.size());
  }

  // The text up to a tag at `open`, which is passed with its - or +.
  void begin_tag(std::size_t open, bool is_output) {
    const std::string_view sign = source_.substr(std::min(open + 2, source_.size()), 1);
    const std::string_view text = source_.substr(at_, open - at_);
    std::string_view kept = text;
    if (sign == "-") {
      kept = stripped(text, false, true);
    } else if (sign != "+" && !is_output) {
      // Drops white space before the tag in its line.
      const std::size_t line = text.rfind('\n') + 1;
      if ((line > 0 || line_starts_) && stripped(text.substr(line), true, false).empty())
        kept = text.substr(0, line);
    }
    if (!kept.empty()) add(Token::Kind::data, std::string(kept));
    move_to(open + 2 + (sign == "-" || sign == "+" ? 1 : 0));
    line_starts_ = false;
  }

  // Behind the end of a tag: white space that `strip` drops, or one line's end that `trim` does.
  void end_tag(std::size_t end, bool strip, bool trim) {
    std::size_t next = end;
    if (strip) {
      const std::string_view rest = source_.substr(end);
      next += rest.size() - stripped(rest, true, false).size();
    } else if (trim && source_.substr(end).starts_with('\n')) {
      ++next;
    }
    move_to(next);
    line_starts_ = source_[next - 1] == '\n';
  }

  // Behind {#. Jinja accepts a missing end of an empty comment or raw text.
  void skip_comment() {
    if (at_ == source_.size()) return;
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) fail_at(line_, "'{#' without '#}'");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    end_tag(end + 2, sign == '-', sign != '+');
  }

  [[nodiscard]] std::size_t behind_space(std::size_t at) const {
    const std::string_view rest = source_.substr(at);
    return at + rest.size() - stripped(rest, true, false).size();
  }

  // Behind {%: passes `raw %}` or `raw -%}` if they follow.
  bool skip_raw_begin() {
    std::size_t at = behind_space(at_);
    if (!source_.substr(at).starts_with("raw")) return false;
    at = behind_space(at + 3);
    const bool strip = source_.substr(at).starts_with('-');
    if (!source_.substr(at + (strip ? 1 : 0)).starts_with("%}")) return false;
    end_tag(at + (strip ? 3 : 2), strip, false);
    return true;
  }

  // Up to {% endraw %}.
  void take_raw() {
    if (at_ == source_.size()) return;
    const int begin = line_;
    for (std::size_t open = source_.find("{%", at_); open != std::string_view::npos;
         open = source_.find("{%", open + 1)) {
      std::size_t at = open + 2;
      if (source_.substr(at).starts_with('-') || source_.substr(at).starts_with('+')) ++at;
      at = behind_space(at);
      if (!source_.substr(at).starts_with("endraw")) continue;
      at = behind_space(at + 6);
      const std::string_view sign = source_.substr(std::min(at, source_.size()), 1);
      if (sign == "-" || sign == "+") ++at;
      if (!source_.substr(std::min(at, source_.size())).starts_with("%}")) continue;
      begin_tag(open, false);
      end_tag(at + 2, sign == "-", sign != "+");
      return;
    }
    fail_at(begin, "'{% raw %}' without '{% endraw %}'");
  }

  void take_tag(bool is_output) {
    const std::string_view close = is_output ? "}}" : "%}";
    const int begin = line_;
    add(is_output ? Token::Kind::output_begin : Token::Kind::block_begin, "");
    std::vector<char> brackets;
    while (at_ < source_.size()) {
      if (brackets.empty()) {
        const char sign = source_[at_];
        const bool signed_end = (sign == '-' || (sign == '+' && !is_output)) &&
                                source_.substr(at_ + 1).starts_with(close);
        if (signed_end || is_at(close)) {
          add(is_output ? Token::Kind::output_end : Token::Kind::block_end, "");
          end_tag(at_ + close.size() + (signed_end ? 1 : 0), signed_end && sign == '-',
                  !is_output && !signed_end);
          return;
        }
      }
      take_token(brackets);
    }
    fail_at(begin,
            std::string(is_output ? "'{{'" : "'{%'") + " without '" + std::string(close) + "'");
  }

  void take_token(std::vector<char>& brackets) {
    const std::string_view rest = source_.substr(at_);
    const Utf8Character first = character_at(source_, at_);
    if (is_space(first.code)) return move_to(at_ + first.bytes);
    const NumberLength number = number_length(rest, at_ > 0 && source_[at_ - 1] == '.');
    if (number.bytes > 0) {
      add(number.is_real ? Token::Kind::real : Token::Kind::whole,
          std::string(rest.substr(0, number.bytes)));
      return move_to(at_ + number.bytes);
    }
    if (begins_name(first.code)) {
      std::size_t end = at_ + first.bytes;
      while (end < source_.size() && continues_name(character_at(source_, end).code))
        end += character_at(source_, end).bytes;
      add(Token::Kind::name, std::string(source_.substr(at_, end - at_)));
      return move_to(end);
    }
    if (first.code == '\'' || first.code == '"') return take_text(source_[at_]);
    take_sign(brackets);
  }

  void take_text(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_at(line_, std::string("a text without its last ") + quote);
    tokens_.push_back(unescaped(source_.substr(at_ + 1, end - at_ - 1), line_));
    move_to(end + 1);
  }

  void take_sign(std::vector<char>& brackets) {
    constexpr std::array<std::string_view, 6> kLong{"==", "!=", "<=", ">=", "//", "**"};
    constexpr std::string_view kOpen = "{[(";
    constexpr std::string_view kClose = "}])";
    const std::string_view two = source_.substr(at_, 2);
    const char c = source_[at_];
    const std::size_t size = std::ranges::find(kLong, two) != kLong.end() ? 2 : 1;
    if (size == 1 && std::string_view("+-*/%~=<>{}[]().,:|;").find(c) == std::string_view::npos)
      fail_at(line_, "'" + std::string(source_.substr(at_, character_at(source_, at_).bytes)) +
                         "', expected an expression");
    if (const std::size_t open = kOpen.find(c); open != std::string_view::npos)
      brackets.push_back(kClose[open]);
    if (kClose.find(c) != std::string_view::npos) {
      if (brackets.empty() || brackets.back() != c)
        fail_at(line_, std::string("'") + c + "', expected " +
                           (brackets.empty() ? std::string("an expression")
                                             : std::string("'") + brackets.back() + "'"));
      brackets.pop_back();
    }
    add(Token::Kind::sign, std::string(source_.substr(at_, size)));
    move_to(at_ + size);
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;  // a line's end, or nothing, stands before at_
  std::vector<Token> tokens_;
};

}  // namespace

void fail_at(int line, const std::string& fault) {
  throw Error("chat template, line " + std::to_string(line) + ": " + fault);
}

std::vector<Token> tokens_of(std::string_view source) {
  std::string lines = with_plain_lines(source);
  // The last line's end is none of the text's.
  if (lines.ends_with('\n')) lines.pop_back();
  return Lexer(lines).read();
}

}  // namespace tandem::exec::chat
