#include "exec/tokenizer/chat/lexer.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "model/error.hpp"

namespace tandem::exec::chat {
namespace {

// Of one statement: trees as deep are still walked by recursion.
constexpr std::size_t kMostWords = 2000;
constexpr std::string_view kSpace = " \t\n\r\f\v";

[[noreturn]] void fail(int line, const std::string& fault) {
  throw Error("chat template, line " + std::to_string(line) + ": " + fault);
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Where `close` stands outside of texts and brackets, from `at` on.
std::size_t find_end(std::string_view source, std::size_t at, std::string_view close) {
  char quote = 0;
  int depth = 0;
  for (; at < source.size(); ++at) {
    const char c = source[at];
    if (quote != 0) {
      if (c == '\\') {
        ++at;
      } else if (c == quote) {
        quote = 0;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (depth == 0 && source.substr(at).starts_with(close)) {
      return at;
    } else if (c == '{' || c == '[' || c == '(') {
      ++depth;
    } else if ((c == '}' || c == ']' || c == ')') && depth > 0) {
      --depth;
    }
  }
  return std::string_view::npos;
}

// Text before a statement or comment that stands first in its line loses that line's white space.
void strip_line(std::string& text, bool begins) {
  const std::size_t end = text.find_last_not_of(" \t");
  if (end == std::string::npos ? begins : text[end] == '\n')
    text.resize(end == std::string::npos ? 0 : end + 1);
}

class Cutter {
 public:
  explicit Cutter(std::string_view source) : source_(source) {}

  std::vector<Piece> cut() {
    while (at_ < source_.size()) {
      const std::size_t open = next_tag();
      take_text(open);
      if (open < source_.size()) take_tag();
    }
    return std::move(pieces_);
  }

 private:
  [[nodiscard]] std::size_t next_tag() const {
    std::size_t open = source_.find('{', at_);
    while (open != std::string_view::npos &&
           (open + 1 == source_.size() ||
            std::string_view("{%#").find(source_[open + 1]) == std::string_view::npos))
      open = source_.find('{', open + 1);
    return std::min(open, source_.size());
  }

  void take_text(std::size_t open) {
    std::string text(source_.substr(at_, open - at_));
    if (strip_next_) text.erase(0, std::min(text.find_first_not_of(kSpace), text.size()));
    if (open < source_.size()) {
      const char mark = open + 2 < source_.size() ? source_[open + 2] : ' ';
      if (mark == '-') {
        const std::size_t last = text.find_last_not_of(kSpace);
        text.resize(last == std::string::npos ? 0 : last + 1);
      } else if (source_[open + 1] != '{' && mark != '+') {
        strip_line(text, at_ == 0 || source_[at_ - 1] == '\n');
      }
    }
    if (!text.empty()) pieces_.push_back({Piece::Kind::text, std::move(text), line_});
    line_ += static_cast<int>(std::ranges::count(source_.substr(at_, open - at_), '\n'));
    at_ = open;
  }

  void take_tag() {
    const char kind = source_[at_ + 1];
    const std::string close = kind == '{' ? "}}" : kind == '%' ? "%}" : "#}";
    const std::size_t end =
        kind == '#' ? source_.find(close, at_ + 2) : find_end(source_, at_ + 2, close);
    if (end == std::string_view::npos)
      fail(line_, "'" + std::string(source_.substr(at_, 2)) + "' without '" + close + "'");
    std::string inner(source_.substr(at_ + 2, end - at_ - 2));
    if (!inner.empty() && (inner.front() == '-' || inner.front() == '+')) inner.erase(0, 1);
    char mark = ' ';
    if (!inner.empty() && (inner.back() == '-' || (inner.back() == '+' && kind != '{'))) {
      mark = inner.back();
      inner.pop_back();
    }
    if (kind != '#') {
      pieces_.push_back(
          {kind == '{' ? Piece::Kind::output : Piece::Kind::statement, std::move(inner), line_});
    }
    line_ += static_cast<int>(std::ranges::count(source_.substr(at_, end - at_), '\n'));
    at_ = end + 2;
    strip_next_ = mark == '-';
    if (kind != '{' && mark == ' ' && at_ < source_.size() && source_[at_] == '\n') {
      ++at_;
      ++line_;
    }
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool strip_next_ = false;
  std::vector<Piece> pieces_;
};

// A text from the quote at `at` on, which moves behind it.
std::string quoted_text(const std::string& text, std::size_t& at, int line) {
  const char quote = text[at++];
  std::string all;
  for (; at < text.size() && text[at] != quote; ++at) {
    if (text[at] != '\\') {
      all += text[at];
      continue;
    }
    if (++at == text.size()) break;
    constexpr std::string_view kCodes = "ntr\\'\"\n";
    constexpr std::string_view kMeant = "\n\t\r\\'\"";
    const std::size_t code = kCodes.find(text[at]);
    if (code == std::string_view::npos)
      fail(line, std::string("escape '\\") + text[at] + R"(', expected \n, \t, \r, \\, \' or \")");
    if (code < kMeant.size()) all += kMeant[code];
  }
  if (at == text.size()) fail(line, std::string("a text without its last ") + quote);
  ++at;
  return all;
}

}  // namespace

std::vector<Piece> pieces(std::string_view source) {
  std::string lines;
  for (std::size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      lines += source[at];
    } else if (!source.substr(at + 1).starts_with('\n')) {
      lines += '\n';
    }
  }
  // The last line's end is none of the text's.
  if (lines.ends_with('\n')) lines.pop_back();
  return Cutter(lines).cut();
}

std::vector<Word> words(const std::string& text, int line) {
  constexpr std::array<std::string_view, 7> kLong{"==", "!=", "<=", ">=", "//", "**", "->"};
  std::vector<Word> all;
  for (std::size_t at = 0; at < text.size();) {
    if (all.size() == kMostWords) fail(line, "more than 2000 words, expected a shorter statement");
    const char c = text[at];
    if (kSpace.find(c) != std::string_view::npos) {
      ++at;
    } else if (c == '\'' || c == '"') {
      all.push_back({Word::Kind::text, quoted_text(text, at, line)});
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      const std::size_t begin = at;
      while (at < text.size() &&
             (is_name(text[at]) || (text[at] == '.' && at + 1 < text.size() &&
                                    std::isdigit(static_cast<unsigned char>(text[at + 1])) != 0)))
        ++at;
      all.push_back({Word::Kind::number, text.substr(begin, at - begin)});
    } else if (is_name(c)) {
      const std::size_t begin = at;
      while (at < text.size() && is_name(text[at])) ++at;
      all.push_back({Word::Kind::name, text.substr(begin, at - begin)});
    } else {
      const bool is_long = std::ranges::find(kLong, text.substr(at, 2)) != kLong.end();
      if (std::string_view("+-*/%~=<>!()[]{}.,:|").find(c) == std::string_view::npos)
        fail(line, std::string("'") + c + "', expected an expression");
      all.push_back({Word::Kind::sign, text.substr(at, is_long ? 2 : 1)});
      at += is_long ? 2 : 1;
    }
  }
  all.emplace_back();
  return all;
}

}  // namespace tandem::exec::chat
