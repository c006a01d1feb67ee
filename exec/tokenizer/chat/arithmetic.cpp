#include "exec/tokenizer/chat/arithmetic.hpp"

#include <algorithm>
#include <cmath>

#include "exec/tokenizer/chat/numbers.hpp"
#include "exec/tokenizer/chat/percent_format.hpp"

namespace tandem::exec::chat {
namespace {

double as_real(const Value& value) {
  const double* const real = value.get<double>();
  if (real != nullptr) return *real;
  return static_cast<double>(*value.whole());
}

void expect_divisor(bool is_zero) {
  if (is_zero) fail("a division by zero, expected another divisor");
}

std::int64_t whole_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t made = 1;
  for (std::int64_t left = exponent; left > 0; left /= 2) {
    if (left % 2 == 1 && __builtin_mul_overflow(made, base, &made)) fail_too_large();
    if (left > 1 && __builtin_mul_overflow(base, base, &base)) fail_too_large();
  }
  return made;
}

Value whole_result(std::string_view sign, std::int64_t a, std::int64_t b) {
  std::int64_t made = 0;
  bool beyond = false;
  if (sign == "+") beyond = __builtin_add_overflow(a, b, &made);
  if (sign == "-") beyond = __builtin_sub_overflow(a, b, &made);
  if (sign == "*") beyond = __builtin_mul_overflow(a, b, &made);
  if (sign == "//" || sign == "%") {
    expect_divisor(b == 0);
    // Rounded down, as Python has it.
    const std::int64_t rest = b == -1 ? 0 : a % b;
    const bool lower = rest != 0 && (rest < 0) != (b < 0);
    beyond = b == -1 && __builtin_sub_overflow(std::int64_t{0}, a, &made) && sign == "//";
    if (b != -1) made = a / b - (lower ? 1 : 0);
    if (sign == "%") made = lower ? rest + b : rest;
  }
  if (sign == "**") made = whole_power(a, b);
  if (beyond) fail_too_large();
  return Value(made);
}

// Python's float divmod.
Value divided_down(std::string_view sign, double a, double b) {
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0.0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      quotient -= 1.0;
    }
  } else {
    rest = std::copysign(0.0, b);
  }
  if (sign == "%") return Value(rest);
  if (quotient == 0.0) return Value(std::copysign(0.0, a / b));
  const double floor = std::floor(quotient);
  return Value(quotient - floor > 0.5 ? floor + 1.0 : floor);
}

Value real_power(double a, double b) {
  if (a == 0.0 && b < 0.0) fail("zero to a negative power, expected another base");
  if (a < 0.0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b))
    fail("a root of a negative number, expected a positive one");
  const double made = std::pow(a, b);
  if (std::isinf(made) && std::isfinite(a) && std::isfinite(b))
    fail("a power beyond what a floating-point number holds, expected a smaller one");
  return Value(made);
}

Value real_result(std::string_view sign, double a, double b) {
  if (sign == "+") return Value(a + b);
  if (sign == "-") return Value(a - b);
  if (sign == "*") return Value(a * b);
  if (sign == "**") return real_power(a, b);
  expect_divisor(b == 0.0);
  if (sign == "/") return Value(a / b);
  return divided_down(sign, a, b);
}

Value of_numbers(std::string_view sign, const Value& a, const Value& b) {
  const std::optional<std::int64_t> x = a.whole();
  const std::optional<std::int64_t> y = b.whole();
  const bool is_whole = x && y && sign != "/" && !(sign == "**" && *y < 0);
  if (is_whole) return whole_result(sign, *x, *y);
  constexpr std::int64_t kExact = std::int64_t{1} << 53U;
  if (sign == "/" && x && y && (std::abs(as_real(a)) > kExact || std::abs(as_real(b)) > kExact))
    fail("a quotient of whole numbers beyond 2^53, expected smaller ones");
  return real_result(sign, as_real(a), as_real(b));
}

bool is_list(const Value& value) {
  const Sequence* const list = value.sequence();
  return list != nullptr &&
         (list->form == Sequence::Form::list || list->form == Sequence::Form::tuple);
}

Value repeated(Budget& budget, const Value& of, std::int64_t times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  if (of.is_text()) {
    const std::string& text = of.text();
    if (text.empty() || count == 0) return text_value(budget, "");
    Budget::expect_text(count);
    Budget::expect_text(count * text.size());
    budget.make(count * text.size());
    std::string made;
    made.reserve(count * text.size());
    for (std::size_t i = 0; i < count; ++i) made += text;
    return text_value(budget, std::move(made));
  }
  const Values& items = of.sequence()->items;
  Values made;
  if (!items.empty()) {
    budget.make(std::min(count, std::size_t{1} << 40U) * items.size() * sizeof(Value));
    for (std::size_t i = 0; i < count; ++i) made.insert(made.end(), items.begin(), items.end());
  }
  return sequence_value(budget, std::move(made), of.sequence()->form);
}

std::optional<Value> added(Budget& budget, const Value& a, const Value& b) {
  if (a.is_text() && b.is_text()) return text_value(budget, a.text() + b.text());
  if (!is_list(a) || !is_list(b) || a.sequence()->form != b.sequence()->form) return std::nullopt;
  budget.make((a.sequence()->items.size() + b.sequence()->items.size()) * sizeof(Value));
  Values all = a.sequence()->items;
  all.insert(all.end(), b.sequence()->items.begin(), b.sequence()->items.end());
  return sequence_value(budget, std::move(all), a.sequence()->form);
}

}  // namespace

void expect_unmarked(const Value& value, const std::string& what) {
  const Text* const text = value.get<Text>();
  if (text != nullptr && text->safe)
    fail(what +
         " of a text that the filter 'safe' or 'escape' made, which would escape others; expected "
         "the filter at the end, or none");
}

Value calculated(Budget& budget, std::string_view sign, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return of_numbers(sign, a, b);
  expect_unmarked(a, "'" + std::string(sign) + "'");
  expect_unmarked(b, "'" + std::string(sign) + "'");
  if (sign == "%" && a.is_text()) return percent_format(budget, a.text(), b);
  if (sign == "+") {
    if (std::optional<Value> sum = added(budget, a, b)) return *std::move(sum);
  }
  if (sign == "*" && (a.is_text() || is_list(a)) && b.whole())
    return repeated(budget, a, *b.whole());
  if (sign == "*" && (b.is_text() || is_list(b)) && a.whole())
    return repeated(budget, b, *a.whole());
  fail(kind_of(a) + " " + std::string(sign) + " " + kind_of(b) +
       ", expected two numbers, or with + two texts or two lists");
}

Value with_sign(std::string_view sign, const Value& value) {
  if (const double* const real = value.get<double>()) return Value(sign == "-" ? -*real : *real);
  const std::optional<std::int64_t> whole = value.whole();
  if (!whole) fail(std::string(sign) + " of " + kind_of(value) + ", expected a number");
  return sign == "-" ? whole_result("-", 0, *whole) : Value(*whole);
}

}  // namespace tandem::exec::chat
