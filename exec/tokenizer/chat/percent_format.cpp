#include "exec/tokenizer/chat/percent_format.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "exec/tokenizer/chat/characters.hpp"
#include "exec/tokenizer/chat/numbers.hpp"
#include "exec/tokenizer/chat/python_text.hpp"
#include "exec/tokenizer/utf8.hpp"

namespace tandem::exec::chat {
namespace {

struct Directive {
  bool alternate = false;
  bool zero = false;
  bool left = false;
  bool space = false;
  bool plus = false;
  std::int64_t width = 0;
  std::int64_t precision = -1;  // negative: none
  char kind = 's';
};

class PercentFormatter {
 public:
  PercentFormatter(Budget& budget, const std::string& form, const Value& values)
      : budget_(&budget), form_(&form), values_(&values), out_(budget) {
    const Sequence* const list = values.sequence();
    if (list != nullptr && list->form == Sequence::Form::tuple) tuple_ = list;
    // Values with items may remain unused, as Python treats them as mappings.
    may_be_left_ = tuple_ == nullptr && (values.mapping() != nullptr || values.is_undefined() ||
                                         (list != nullptr && list->form <= Sequence::Form::range));
  }

  Value formatted() {
    while (at_ < form_->size()) {
      const std::size_t sign = std::min(form_->find('%', at_), form_->size());
      out_.append(std::string_view(*form_).substr(at_, sign - at_));
      at_ = sign + 1;
      if (sign < form_->size()) directive();
    }
    const bool all_used = tuple_ == nullptr ? used_ > 0 : used_ == tuple_->items.size();
    if (!all_used && !may_be_left_) fail("%: values are left over, expected one a directive");
    return out_.take();
  }

 private:
  [[nodiscard]] char peek() const {
    if (at_ >= form_->size()) fail("%: a directive without its end in '" + *form_ + "'");
    return (*form_)[at_];
  }

  Value next_value() {
    const std::size_t place = used_++;
    if (named_) return *named_;
    if (tuple_ == nullptr ? place > 0 : place >= tuple_->items.size())
      fail("%: more directives than values in '" + *form_ + "'");
    return tuple_ == nullptr ? *values_ : tuple_->items[place];
  }

  std::int64_t number() {
    if (peek() == '*') {
      ++at_;
      const Value given = next_value();
      if (!given.whole()) fail("%: a width of " + kind_of(given) + ", expected a whole number");
      return *given.whole();
    }
    std::int64_t made = 0;
    while (std::isdigit(static_cast<unsigned char>(peek())) != 0) {
      made = std::min<std::int64_t>(made * 10 + (peek() - '0'), std::int64_t{1} << 40U);
      ++at_;
    }
    return made;
  }

  void directive() {
    named_.reset();
    if (peek() == '(') name();
    Directive one;
    for (;; ++at_) {
      const char flag = peek();
      if (flag == '#')
        one.alternate = true;
      else if (flag == '0')
        one.zero = true;
      else if (flag == '-')
        one.left = true;
      else if (flag == ' ')
        one.space = true;
      else if (flag == '+')
        one.plus = true;
      else
        break;
    }
    one.width = number();
    if (one.width < 0) {
      one.left = true;
      one.width = -one.width;
    }
    if (peek() == '.') {
      ++at_;
      one.precision = std::max<std::int64_t>(0, number());
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    one.kind = peek();
    ++at_;
    if (one.kind == '%') {
      out_.append(1, '%');
      return;
    }
    write(one, next_value());
  }

  // %(name): up to the bracket that closes this one.
  void name() {
    const std::size_t begin = ++at_;
    for (int depth = 1; depth > 0; ++at_) depth += peek() == '(' ? 1 : peek() == ')' ? -1 : 0;
    const std::string key = form_->substr(begin, at_ - 1 - begin);
    const Mapping* const mapping = values_->mapping();
    if (mapping == nullptr) fail("%: a name for " + kind_of(*values_) + ", expected a mapping");
    const Value* const found = mapping->find(*budget_, text_value(*budget_, key));
    if (found == nullptr) fail("%: the mapping has no '" + key + "'");
    named_ = *found;
  }

  void write(const Directive& one, const Value& value) {
    switch (one.kind) {
      case 's':
        return write_text(one, to_text(*budget_, value));
      case 'r':
        return write_text(one, representation(*budget_, value));
      case 'c':
        return write_character(one, value);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return write_whole(one, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return write_real(one, value);
      default:
        fail(std::string("%: the directive '%") + one.kind +
             "', expected one of s, r, d, i, u, x, X, o, e, E, f, F, g, G, c and %");
    }
  }

  void pad(const Directive& one, std::size_t length) {
    if (one.width > static_cast<std::int64_t>(length))
      out_.append(static_cast<std::size_t>(one.width) - length, ' ');
  }

  void write_text(const Directive& one, std::string_view text) {
    if (one.precision >= 0)
      text = text.substr(0, byte_of(text, static_cast<std::size_t>(one.precision)));
    const std::size_t length = length_of(text);
    if (!one.left) pad(one, length);
    out_.append(text);
    if (one.left) pad(one, length);
  }

  void write_character(const Directive& one, const Value& value) {
    std::string text;
    if (value.is_text() && length_of(value.text()) == 1) {
      text = value.text();
    } else {
      const std::int64_t code = value.whole().value_or(-1);
      if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        fail("%c of " + kind_of(value) + ", expected a character or its number");
      text = to_utf8(static_cast<char32_t>(code));
    }
    Directive whole = one;
    whole.precision = -1;
    write_text(whole, text);
  }

  // Digits behind a sign and a prefix, filled up with zeros or spaces.
  void write_digits(const Directive& one, bool negative, const std::string& prefix,
                    const std::string& digits) {
    const std::string sign = negative ? "-" : one.plus ? "+" : one.space ? " " : "";
    const auto length = static_cast<std::int64_t>(sign.size() + prefix.size() + digits.size());
    const auto missing = static_cast<std::size_t>(std::max<std::int64_t>(0, one.width - length));
    if (!one.left && !one.zero) out_.append(missing, ' ');
    out_.append(sign + prefix);
    if (!one.left && one.zero) out_.append(missing, '0');
    out_.append(digits);
    if (one.left) out_.append(missing, ' ');
  }

  void write_whole(const Directive& one, const Value& value) {
    const bool decimal = one.kind == 'd' || one.kind == 'i' || one.kind == 'u';
    std::optional<std::int64_t> number = value.whole();
    if (const double* const real = value.get<double>(); real != nullptr && decimal)
      number = truncated(*real);
    if (!number)
      fail(std::string("%") + one.kind + " of " + kind_of(value) + ", expected a whole number");
    const bool hex = one.kind == 'x' || one.kind == 'X';
    std::uint64_t size = static_cast<std::uint64_t>(*number);
    if (*number < 0) size = 0 - size;
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), size,
                                   decimal ? 10
                                   : hex   ? 16
                                           : 8);
    std::string digits(text.data(), end.ptr);
    std::string prefix = decimal || !one.alternate ? "" : hex ? "0x" : "0o";
    if (one.kind == 'X') {
      for (std::string* const part : {&digits, &prefix})
        std::ranges::transform(*part, part->begin(), [](char c) {
          return static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
        });
    }
    if (one.precision > static_cast<std::int64_t>(digits.size())) {
      Budget::expect_text(static_cast<std::size_t>(one.precision));
      digits.insert(0, static_cast<std::size_t>(one.precision) - digits.size(), '0');
    }
    write_digits(one, *number < 0, prefix, digits);
  }

  void write_real(const Directive& one, const Value& value) {
    if (!value.is_number())
      fail(std::string("%") + one.kind + " of " + kind_of(value) + ", expected a number");
    const double* const real = value.get<double>();
    const double number = real != nullptr ? *real : static_cast<double>(*value.whole());
    constexpr std::int64_t kMostDigits = 2000;
    if (one.precision > kMostDigits) fail("%: more than 2000 digits, expected fewer");
    const int precision = one.precision < 0 ? 6 : static_cast<int>(one.precision);
    const std::string form = std::string("%") + (one.alternate ? "#" : "") + ".*" + one.kind;
    std::array<char, 2400> text{};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)std::snprintf(text.data(), text.size(), form.c_str(), precision, std::abs(number));
#pragma GCC diagnostic pop
    write_digits(one, std::signbit(number) && !std::isnan(number), "", text.data());
  }

  Budget* budget_;
  const std::string* form_;
  const Value* values_;
  const Sequence* tuple_ = nullptr;
  bool may_be_left_ = false;
  TextBuilder out_;
  std::size_t at_ = 0;
  std::size_t used_ = 0;
  std::optional<Value> named_{};
};

}  // namespace

Value percent_format(Budget& budget, const std::string& form, const Value& values) {
  return PercentFormatter(budget, form, values).formatted();
}

}  // namespace tandem::exec::chat
