#include "exec/tokenizer/chat/literals.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdio>

#include "exec/tokenizer/utf8.hpp"

namespace tandem::exec::chat {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Bytes of digits, with single underscores between them.
template <class Test>
std::size_t digits_length(std::string_view text, const Test& test) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (test(text[at])) {
      ++at;
    } else if (text[at] == '_' && at > 0 && at + 1 < text.size() && test(text[at + 1])) {
      at += 2;
    } else {
      break;
    }
  }
  return at;
}

// 0x10, 0o17, 0b1: bytes; 0 if it is none.
std::size_t prefixed_length(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') return 0;
  const auto mark = static_cast<char>(std::tolower(static_cast<unsigned char>(text[1])));
  std::string_view rest = text.substr(2);
  const std::size_t gap = rest.starts_with('_') ? 1 : 0;
  rest.remove_prefix(gap);
  const auto in = [&](std::string_view digits) {
    return digits_length(rest, [digits](char c) {
      return digits.find(static_cast<char>(std::tolower(static_cast<unsigned char>(c)))) !=
             std::string_view::npos;
    });
  };
  const std::size_t length = mark == 'x'   ? in("0123456789abcdef")
                             : mark == 'o' ? in("01234567")
                             : mark == 'b' ? in("01")
                                           : 0;
  return length == 0 ? 0 : 2 + gap + length;
}

std::size_t exponent_length(std::string_view text) {
  if (text.empty() || (text[0] != 'e' && text[0] != 'E')) return 0;
  const std::size_t sign = text.size() > 1 && (text[1] == '+' || text[1] == '-') ? 1 : 0;
  const std::size_t digits = digits_length(text.substr(1 + sign), is_digit);
  return digits == 0 ? 0 : 1 + sign + digits;
}

// Reads an escape behind its backslash.
class EscapeReader {
 public:
  EscapeReader(std::string_view inner, int line) : inner_(inner), line_(line) {}

  Token read() {
    while (at_ < inner_.size()) {
      if (inner_[at_] != '\\') {
        text_ += inner_[at_++];
        continue;
      }
      ++at_;
      escape();
    }
    if (!fault_.empty()) return {Token::Kind::unsupported, fault_, line_};
    return {Token::Kind::text, text_, line_};
  }

 private:
  void escape() {
    constexpr std::string_view kCodes = "abfnrtv\\'\"";
    constexpr std::string_view kMeant = "\a\b\f\n\r\t\v\\'\"";
    const char code = inner_[at_];
    if (const std::size_t known = kCodes.find(code); known != std::string_view::npos) {
      text_ += kMeant[known];
      ++at_;
    } else if (code == '\n') {
      ++at_;
    } else if (code >= '0' && code <= '7') {
      octal();
    } else if (code == 'x' || code == 'u' || code == 'U') {
      hexadecimal(code == 'x' ? 2 : code == 'u' ? 4 : 8);
    } else if (code == 'N') {
      fault_ = "the escape \\N{name}, expected the character itself or \\u";
      ++at_;
    } else if (static_cast<unsigned char>(code) >= 0x80) {
      // Jinja writes the character as an escape first, whose backslash this one escapes.
      const Utf8Character one = character_at(inner_, at_);
      std::array<char, 16> digits{};
      const char* const form = one.code < 0x100     ? "\\x%02x"
                               : one.code < 0x10000 ? "\\u%04x"
                                                    : "\\U%08x";
      (void)std::snprintf(digits.data(), digits.size(), form, static_cast<unsigned>(one.code));
      text_ += digits.data();
      at_ += one.bytes;
    } else {
      text_ += '\\';
    }
  }
  void octal() {
    std::int32_t number = 0;
    for (int digits = 0;
         digits < 3 && at_ < inner_.size() && inner_[at_] >= '0' && inner_[at_] <= '7'; ++digits)
      number = number * 8 + (inner_[at_++] - '0');
    text_ += to_utf8(static_cast<char32_t>(number));
  }
  void hexadecimal(std::size_t size) {
    const std::string_view digits = inner_.substr(at_ + 1, size);
    std::uint32_t number = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
    if (digits.size() < size || end.ptr != digits.data() + size || number > 0x10ffff)
      fail_at(line_, "escape '\\" + std::string(inner_.substr(at_, 1 + size)) +
                         "', expected \\xHH, \\uHHHH or \\UHHHHHHHH of a character");
    if (number >= 0xd800 && number < 0xe000) {
      fault_ = "the escape \\" + std::string(inner_.substr(at_, 1 + size)) +
               " of half a character, expected the whole character or \\U";
    } else {
      text_ += to_utf8(static_cast<char32_t>(number));
    }
    at_ += 1 + size;
  }

  std::string_view inner_;
  int line_;
  std::size_t at_ = 0;
  std::string text_;
  std::string fault_;
};

}  // namespace

Token unescaped(std::string_view inner, int line) { return EscapeReader(inner, line).read(); }

NumberLength number_length(std::string_view text, bool behind_point) {
  const std::size_t digits = digits_length(text, is_digit);
  if (digits == 0) return {};
  if (!behind_point) {
    std::size_t real = digits;
    if (text.substr(digits).starts_with('.')) {
      const std::size_t fraction = digits_length(text.substr(digits + 1), is_digit);
      if (fraction > 0) real += 1 + fraction;
    }
    real += exponent_length(text.substr(real));
    if (real > digits) return {real, true};
  }
  if (const std::size_t prefixed = prefixed_length(text); prefixed > 0) return {prefixed, false};
  // Zeros in front make a number of their own, as in Python: 08 is 0 and 8.
  if (text[0] != '0') return {digits, false};
  return {digits_length(text, [](char c) { return c == '0'; }), false};
}

}  // namespace tandem::exec::chat
