#include "exec/tokenizer/chat/value.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "exec/tokenizer/utf8.hpp"
#include "model/error.hpp"

namespace tandem::exec::chat {
namespace {

// Python writes a float with a point, json the shortest digits, too.
std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return Value(number).dump();
}

bool is_number(const Value& value) { return value.is_number() || value.is_boolean(); }

double number_of(const Value& value) {
  return value.is_boolean() ? (value.get<bool>() ? 1.0 : 0.0) : value.get<double>();
}

constexpr std::size_t kMostText = std::size_t{16} << 20U;
constexpr std::size_t kMostWeight = std::size_t{64} << 20U;
constexpr int kDeepest = 100;

void weigh(const Value& value, int depth, std::size_t& sum) {
  if (depth > kDeepest) throw Error("chat template: more than 100 lists in one another");
  sum += 16;
  if (value.is_string()) sum += value.get_ref<const std::string&>().size();
  if (sum > kMostWeight)
    throw Error("chat template: a value of more than 64 MiB; use another template");
  if (value.is_array()) {
    for (const Value& element : value) weigh(element, depth + 1, sum);
  } else if (value.is_object()) {
    for (const auto& [key, element] : value.items()) {
      sum += key.size();
      weigh(element, depth + 1, sum);
    }
  }
}

void append_json(const Value& value, int indent, int depth, std::string& text) {
  const auto line = [&](int levels) {
    if (indent >= 0) text += '\n' + std::string(static_cast<std::size_t>(indent * levels), ' ');
  };
  const std::string between = indent >= 0 ? "," : ", ";
  if (is_undefined(value)) throw Error("chat template: tojson of what is not defined");
  if (!value.is_structured()) {
    text += value.dump(-1, ' ', false, Value::error_handler_t::replace);
    return;
  }
  const bool list = value.is_array();
  if (value.empty()) {
    text += list ? "[]" : "{}";
    return;
  }
  text += list ? '[' : '{';
  bool first = true;
  for (const auto& [key, element] : value.items()) {
    if (!first) text += between;
    first = false;
    line(depth + 1);
    if (!list) text += Value(key).dump(-1, ' ', false, Value::error_handler_t::replace) + ": ";
    append_json(element, indent, depth + 1, text);
  }
  line(depth);
  text += list ? ']' : '}';
  text = bounded(std::move(text));
}

}  // namespace

Value undefined() { return Value(Value::value_t::discarded); }

bool is_undefined(const Value& value) { return value.is_discarded(); }

bool is_true(const Value& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0.0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  if (value.is_structured()) return !value.empty();
  return false;
}

std::string to_text(const Value& value) {
  if (is_undefined(value)) return "";
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return float_text(value.get<double>());
  if (value.is_number()) return value.dump();
  throw Error("chat template: " + kind_of(value) +
              " is written as it is, expected a text or a number; `tojson` writes others");
}

std::string to_json(const Value& value, int indent) {
  std::string text;
  append_json(value, indent, 0, text);
  return text;
}

bool equal(const Value& a, const Value& b) {
  if (is_undefined(a) || is_undefined(b)) return is_undefined(a) && is_undefined(b);
  if (is_number(a) && is_number(b)) return number_of(a) == number_of(b);
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (a.is_array()) return std::equal(a.begin(), a.end(), b.begin(), equal);
  if (a.is_object()) {
    return std::ranges::all_of(a.items(), [&](const auto& item) {
      return b.contains(item.key()) && equal(item.value(), b.at(item.key()));
    });
  }
  return a == b;
}

bool less(const Value& a, const Value& b) {
  if (is_number(a) && is_number(b)) return number_of(a) < number_of(b);
  if (a.is_string() && b.is_string())
    return a.get_ref<const std::string&>() < b.get_ref<const std::string&>();
  throw Error("chat template: " + kind_of(a) + " and " + kind_of(b) +
              " are compared, expected two numbers or two texts");
}

bool contains(const Value& whole, const Value& part) {
  if (whole.is_string() && part.is_string())
    return whole.get_ref<const std::string&>().find(part.get_ref<const std::string&>()) !=
           std::string::npos;
  if (whole.is_array())
    return std::ranges::any_of(whole, [&](const Value& element) { return equal(element, part); });
  if (whole.is_object())
    return part.is_string() && whole.contains(part.get_ref<const std::string&>());
  throw Error("chat template: " + kind_of(part) + " in " + kind_of(whole) +
              ", expected a list, a mapping or a text");
}

std::string bounded(std::string text) {
  if (text.size() > kMostText)
    throw Error("chat template: more than 16 MiB of text; use another template");
  return text;
}

std::size_t weight(const Value& value) {
  std::size_t sum = 0;
  weigh(value, 0, sum);
  return sum;
}

std::string kind_of(const Value& value) {
  if (is_undefined(value)) return "what is not defined";
  if (value.is_null()) return "none";
  if (value.is_boolean()) return "a truth value";
  if (value.is_number()) return "a number";
  if (value.is_string()) return "a text";
  return value.is_array() ? "a list" : "a mapping";
}

std::string stripped(std::string_view text, bool left, bool right) {
  const auto is_space = [](std::int32_t code) {
    constexpr std::array<std::int32_t, 13> kOthers{
        0x1c, 0x1d, 0x1e, 0x1f, 0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0x20};
    return (code >= 0x9 && code <= 0xd) || (code >= 0x2000 && code <= 0x200a) ||
           std::ranges::find(kOthers, code) != kOthers.end();
  };
  while (left && !text.empty()) {
    const Utf8Character first = character_at(text, 0);
    if (!is_space(first.code)) break;
    text.remove_prefix(first.bytes);
  }
  while (right && !text.empty()) {
    const Utf8Character last = character_before(text, text.size());
    if (!is_space(last.code)) break;
    text.remove_suffix(last.bytes);
  }
  return std::string(text);
}

}  // namespace tandem::exec::chat
