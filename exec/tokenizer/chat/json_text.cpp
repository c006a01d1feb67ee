#include "exec/tokenizer/chat/json_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "exec/tokenizer/chat/compare.hpp"
#include "exec/tokenizer/chat/python_text.hpp"
#include "exec/tokenizer/utf8.hpp"

namespace tandem::exec::chat {
namespace {

std::string json_escape(std::int32_t code) {
  constexpr std::string_view kCodes = "\"\\\n\r\t\f\b";
  constexpr std::string_view kLetters = "\"\\nrtfb";
  const std::size_t known = code < 0x80 ? kCodes.find(static_cast<char>(code)) : std::string::npos;
  if (known != std::string_view::npos) return {'\\', kLetters[known]};
  std::array<char, 16> text{};
  if (code < 0x10000) {
    (void)std::snprintf(text.data(), text.size(), "\\u%04x", static_cast<unsigned>(code));
  } else {
    const auto rest = static_cast<unsigned>(code - 0x10000);
    (void)std::snprintf(text.data(), text.size(), "\\u%04x\\u%04x", 0xd800U + (rest >> 10U),
                        0xdc00U + (rest & 0x3ffU));
  }
  return text.data();
}

class JsonWriter {
 public:
  JsonWriter(Budget& budget, const JsonForm& form) : budget_(&budget), form_(&form), out_(budget) {}
  void write(const Value& value, int level);
  std::string take() { return out_.take_text(); }

 private:
  void write_text(std::string_view text) {
    out_.append("\"");
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Character one = character_at(text, at);
      const bool escaped = one.code < 0x20 || one.code == '"' || one.code == '\\' ||
                           (form_->ascii && one.code > 0x7e);
      if (escaped) {
        out_.append(json_escape(one.code));
      } else {
        out_.append(text.substr(at, one.bytes));
      }
      at += one.bytes;
    }
    out_.append("\"");
  }
  void break_line(int level) {
    if (!form_->broken) return;
    out_.append("\n");
    for (int i = 0; i < level; ++i) out_.append(form_->indent);
  }
  static std::string number_text(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    return real_text(number);
  }
  void write_mapping(const Mapping& of, int level);
  void write_key(const Value& key);

  Budget* budget_;
  const JsonForm* form_;
  TextBuilder out_;
};

void JsonWriter::write_key(const Value& key) {
  if (key.is_text()) return write_text(key.text());
  if (!key.is_number() && !key.is_none())
    fail("tojson of a mapping whose key is " + kind_of(key) + ", expected texts");
  out_.append("\"");
  write(key, 0);
  out_.append("\"");
}

void JsonWriter::write_mapping(const Mapping& of, int level) {
  if (of.items.empty()) return out_.append("{}");
  std::vector<std::pair<Value, Value>> items = of.items;
  budget_->make(items.size() * sizeof(items.front()));
  if (form_->sorted) {
    std::ranges::stable_sort(
        items, [this](const Value& a, const Value& b) { return ordered(*budget_, "<", a, b); },
        &std::pair<Value, Value>::first);
  }
  out_.append("{");
  bool first = true;
  for (const auto& [key, value] : items) {
    if (!first) out_.append(form_->between);
    first = false;
    break_line(level + 1);
    write_key(key);
    out_.append(form_->behind_key);
    write(value, level + 1);
  }
  break_line(level);
  out_.append("}");
}

void JsonWriter::write(const Value& value, int level) {
  budget_->read(16);
  const Sequence* const list = value.sequence();
  if (value.is_none()) {
    out_.append("null");
  } else if (const bool* const truth = value.get<bool>()) {
    out_.append(*truth ? "true" : "false");
  } else if (const auto* const whole = value.get<std::int64_t>()) {
    out_.append(std::to_string(*whole));
  } else if (const double* const real = value.get<double>()) {
    out_.append(number_text(*real));
  } else if (value.is_text()) {
    write_text(value.text());
  } else if (value.mapping() != nullptr) {
    write_mapping(*value.mapping(), level);
  } else if (list != nullptr &&
             (list->form == Sequence::Form::list || list->form == Sequence::Form::tuple)) {
    if (list->items.empty()) return out_.append("[]");
    out_.append("[");
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      if (i > 0) out_.append(form_->between);
      break_line(level + 1);
      write(list->items[i], level + 1);
    }
    break_line(level);
    out_.append("]");
  } else {
    fail("tojson of " + kind_of(value) + ", expected texts, numbers, lists or mappings");
  }
}

}  // namespace

std::string to_json(Budget& budget, const Value& value, const JsonForm& form) {
  JsonWriter writer(budget, form);
  writer.write(value, 0);
  return writer.take();
}

namespace {

using Json = nlohmann::ordered_json;

Value value_of(Budget& budget, const Json& json) {
  if (json.is_null()) return Value(None{});
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_string()) return text_value(budget, valid_utf8(json.get<std::string>()));
  if (json.is_number_float()) return Value(json.get<double>());
  if (json.is_number()) {
    const bool fits = !json.is_number_unsigned() ||
                      json.get<std::uint64_t>() <=
                          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!fits) fail(json.dump() + " in JSON, expected a number of 64 bits");
    return Value(json.get<std::int64_t>());
  }
  if (json.is_array()) {
    Values items;
    items.reserve(json.size());
    for (const Json& one : json) items.push_back(value_of(budget, one));
    return sequence_value(budget, std::move(items));
  }
  std::vector<std::pair<Value, Value>> items;
  items.reserve(json.size());
  for (const auto& [key, value] : json.items())
    items.emplace_back(text_value(budget, valid_utf8(key)), value_of(budget, value));
  return mapping_value(budget, std::move(items));
}

}  // namespace

Value from_json(Budget& budget, std::string_view json) {
  try {
    return value_of(budget, Json::parse(json));
  } catch (const Json::exception& fault) {
    fail(std::string("JSON, ") + fault.what());
  }
}

}  // namespace tandem::exec::chat
