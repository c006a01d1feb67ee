#include "exec/tokenizer/chat/numbers.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "exec/tokenizer/chat/characters.hpp"
#include "exec/tokenizer/chat/template_budget.hpp"
#include "exec/tokenizer/utf8.hpp"

namespace tandem::exec::chat {
namespace {

// Without white space around it, digits of all scripts as ASCII's.
std::string plain_digits(std::string_view text) {
  std::string all;
  text = stripped(text, true, true);
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character one = character_at(text, at);
    const int digit = decimal_digit(one.code);
    if (one.code >= 0x80 && digit >= 0) {
      all += static_cast<char>('0' + digit);
    } else {
      all += text.substr(at, one.bytes);
    }
    at += one.bytes;
  }
  return all;
}

bool is_alphanumeric(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Removes single underscores between digits; false for other underscores.
bool drop_underscores(std::string& text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '_') continue;
    if (at == 0 || at + 1 == text.size() || !is_alphanumeric(text[at - 1]) ||
        !is_alphanumeric(text[at + 1]))
      return false;
  }
  std::erase(text, '_');
  return true;
}

}  // namespace

void fail_too_large() { fail("a whole number beyond 64 bits, expected a smaller one"); }

std::optional<std::int64_t> read_whole(std::string_view text, std::int64_t base) {
  if (base != 0 && (base < 2 || base > 36))
    fail("a number of base " + std::to_string(base) + ", expected 0 or 2 to 36");
  std::string digits = plain_digits(text);
  const bool has_sign = digits.starts_with('-') || digits.starts_with('+');
  const bool negative = digits.starts_with('-');
  if (has_sign) digits.erase(0, 1);
  std::int64_t given = base;
  const bool prefixed = digits.size() > 1 && digits[0] == '0';
  const char mark =
      prefixed ? static_cast<char>(std::tolower(static_cast<unsigned char>(digits[1]))) : ' ';
  const int named = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  if (named != 0 && (base == 0 || base == named)) {
    given = named;
    digits.erase(0, 2);
    if (digits.starts_with('_')) digits.erase(0, 1);
  }
  if (!drop_underscores(digits) || digits.empty()) return std::nullopt;
  if (given == 0) {
    // 010 is none of Python's, 000 is.
    if (digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos) return std::nullopt;
    given = 10;
  }
  std::uint64_t size = 0;
  const auto read =
      std::from_chars(digits.data(), digits.data() + digits.size(), size, static_cast<int>(given));
  if (read.ptr != digits.data() + digits.size()) {
    if (read.ec != std::errc::result_out_of_range) return std::nullopt;
  }
  constexpr std::uint64_t kTwo63 = std::uint64_t{1} << 63U;
  if (read.ec == std::errc::result_out_of_range || size > kTwo63 || (size == kTwo63 && !negative))
    fail_too_large();
  return static_cast<std::int64_t>(negative ? 0 - size : size);
}

std::optional<double> read_real(std::string_view text) {
  std::string digits = plain_digits(text);
  if (!drop_underscores(digits)) return std::nullopt;
  std::string_view rest = digits;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  std::string name(rest);
  std::ranges::transform(name, name.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  const double sign = negative ? -1.0 : 1.0;
  if (name == "inf" || name == "infinity") return sign * HUGE_VAL;
  if (name == "nan") return std::nan("");
  if (rest.empty() || rest.find_first_not_of("0123456789.eE+-") != std::string_view::npos)
    return std::nullopt;
  double number = 0.0;
  const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (read.ptr != rest.data() + rest.size()) return std::nullopt;
  // Out of range: infinite, or zero.
  if (read.ec == std::errc::result_out_of_range) number = std::strtod(name.c_str(), nullptr);
  return sign * number;
}

std::int64_t truncated(double number) {
  constexpr double kTwo63 = 9223372036854775808.0;
  if (!(number >= -kTwo63 && number < kTwo63)) fail_too_large();
  return static_cast<std::int64_t>(number);
}

double rounded(double number, int digits) {
  if (!std::isfinite(number)) return number;
  // printf rounds the exact value, as Python does.
  std::array<char, 700> text{};
  (void)std::snprintf(text.data(), text.size(), "%.*f", digits, number);
  return std::strtod(text.data(), nullptr);
}

}  // namespace tandem::exec::chat
