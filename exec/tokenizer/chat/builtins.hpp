#pragma once

// Filters, tests and methods of values, as Jinja and Python have them.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "exec/tokenizer/chat/value.hpp"

namespace tandem::exec::chat {

// Throws Error that says what in a template is wrong.
[[noreturn]] void fail(const std::string& text);

// The arguments of a call, evaluated.
struct Given {
  std::vector<Value> values{};
  std::map<std::string, Value> named{};
  // The argument in that place, or of that name, else `otherwise`.
  [[nodiscard]] Value at(std::size_t place, const std::string& name,
                         const Value& otherwise = undefined()) const;
  // Throws Error unless at() was asked for each: one that is left out changes the text unseen.
  void expect_taken(const std::string& by) const;

  mutable std::size_t taken{};  // places that were asked for
  mutable std::set<std::string> asked{};
};

// Each throws Error naming what it does not know, or was not made for.
[[nodiscard]] Value filtered(const std::string& filter, const Value& value, const Given& given);
[[nodiscard]] bool tested(const std::string& test, const Value& value, const Given& given);
[[nodiscard]] Value method(const Value& of, const std::string& name, const Given& given);

// value.name or value[index]: undefined where there is none. Throws Error of what is undefined.
[[nodiscard]] Value member(const Value& of, const Value& index);
// value[begin:end:step], each undefined where it was left out.
[[nodiscard]] Value slice(const Value& of, const Value& begin, const Value& end, const Value& step);
// What a loop goes through: a list's elements, a mapping's keys, a text's characters.
[[nodiscard]] std::vector<Value> elements(const Value& of);

}  // namespace tandem::exec::chat
