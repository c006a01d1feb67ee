#include "exec/tokenizer/chat/python_text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "exec/tokenizer/chat/characters.hpp"
#include "exec/tokenizer/chat/loop.hpp"
#include "exec/tokenizer/utf8.hpp"

namespace tandem::exec::chat {
namespace {

constexpr int kDeepestText = 120;  // namespaces may contain themselves

std::string escape_of(std::int32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  std::array<char, 16> text{};
  const char* const form = code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x";
  (void)std::snprintf(text.data(), text.size(), form, static_cast<unsigned>(code));
  return text.data();
}

void write_quoted(const std::string& text, TextBuilder& out) {
  const bool has_single = text.find('\'') != std::string::npos;
  const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
  out.append(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character one = character_at(text, at);
    if (one.code == quote || one.code == '\\') {
      out.append(1, '\\');
      out.append(1, static_cast<char>(one.code));
    } else if (is_printable(one.code)) {
      out.append(std::string_view(text).substr(at, one.bytes));
    } else {
      out.append(escape_of(one.code));
    }
    at += one.bytes;
  }
  out.append(1, quote);
}

class Writer {
 public:
  explicit Writer(Budget& budget) : budget_(&budget), out_(budget) {}
  void write(const Value& value);
  std::string take() { return out_.take_text(); }

 private:
  void write_list(const Values& items, std::string_view open, std::string_view close) {
    out_.append(open);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(", ");
      write(items[i]);
    }
    out_.append(close);
  }
  void write_sequence(const Sequence& of);
  void write_mapping(const Mapping& of);
  void write_namespace(const Namespace& of);

  Budget* budget_;
  TextBuilder out_;
  int depth_ = 0;
};

void Writer::write_sequence(const Sequence& of) {
  switch (of.form) {
    case Sequence::Form::list:
      return write_list(of.items, "[", "]");
    case Sequence::Form::tuple:
      return write_list(of.items, "(", of.items.size() == 1 ? ",)" : ")");
    case Sequence::Form::keys:
      return write_list(of.items, "dict_keys([", "])");
    case Sequence::Form::values:
      return write_list(of.items, "dict_values([", "])");
    case Sequence::Form::items:
      return write_list(of.items, "dict_items([", "])");
    case Sequence::Form::range:
      out_.append("range(" + std::to_string(of.bounds[0]) + ", " + std::to_string(of.bounds[1]) +
                  (of.bounds[2] == 1 ? ")" : ", " + std::to_string(of.bounds[2]) + ")"));
  }
}

void Writer::write_mapping(const Mapping& of) {
  out_.append("{");
  for (std::size_t i = 0; i < of.items.size(); ++i) {
    if (i > 0) out_.append(", ");
    write(of.items[i].first);
    out_.append(": ");
    write(of.items[i].second);
  }
  out_.append("}");
}

void Writer::write_namespace(const Namespace& of) {
  out_.append("<Namespace {");
  for (std::size_t i = 0; i < of.members.size(); ++i) {
    if (i > 0) out_.append(", ");
    write_quoted(of.members[i].first, out_);
    out_.append(": ");
    write(of.members[i].second);
  }
  out_.append("}>");
}

void Writer::write(const Value& value) {
  const Depth level(depth_, kDeepestText);
  budget_->read(16);
  if (value.is_undefined()) {
    out_.append("Undefined");
  } else if (value.is_none()) {
    out_.append("None");
  } else if (const bool* const truth = value.get<bool>()) {
    out_.append(*truth ? "True" : "False");
  } else if (const auto* const whole = value.get<std::int64_t>()) {
    out_.append(std::to_string(*whole));
  } else if (const double* const real = value.get<double>()) {
    out_.append(real_text(*real));
  } else if (const Text* const text = value.get<Text>()) {
    if (text->safe) out_.append("Markup(");
    write_quoted(*text->bytes, out_);
    if (text->safe) out_.append(")");
  } else if (value.sequence() != nullptr) {
    write_sequence(*value.sequence());
  } else if (value.mapping() != nullptr) {
    write_mapping(*value.mapping());
  } else if (const auto* const space = value.get<std::shared_ptr<Namespace>>()) {
    write_namespace(**space);
  } else if (const auto* const function = value.get<std::shared_ptr<const Function>>();
             function != nullptr && !(*function)->written.empty()) {
    out_.append((*function)->written);
  } else if (value.is<std::shared_ptr<Loop>>()) {
    const auto number = [&](const char* name) {
      return std::to_string(*loop_attribute(*budget_, value, name)->whole());
    };
    out_.append("<LoopContext " + number("index") + "/" + number("length") + ">");
  } else {
    fail(kind_of(value) +
         " is written, of which Python writes an address, expected a value; call a function, or "
         "make a list of what is generated");
  }
}

}  // namespace

std::string real_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  std::array<char, 64> text{};
  const double size = std::abs(number);
  const bool fixed = number == 0.0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string made(text.data(), end.ptr);
  if (fixed && made.find('.') == std::string::npos) made += ".0";
  return made;
}

std::string to_text(Budget& budget, const Value& value) {
  if (value.is_undefined()) return "";
  if (value.is_text()) {
    budget.read(value.text().size());
    return value.text();
  }
  return representation(budget, value);
}

std::string representation(Budget& budget, const Value& value) {
  Writer writer(budget);
  writer.write(value);
  return writer.take();
}

}  // namespace tandem::exec::chat
