#include "exec/tokenizer/chat/functions.hpp"

#include <algorithm>
#include <array>
#include <ctime>

#include "exec/tokenizer/chat/arguments.hpp"
#include "exec/tokenizer/chat/elements.hpp"
#include "exec/tokenizer/chat/python_text.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "model/base/error.hpp"

namespace tandem::exec::chat {
namespace {

Value raise_exception(Budget& budget, const Arguments& arguments) {
  const Bound given = bind("raise_exception", arguments, {"message"}, 1);
  throw Error("the chat template refuses these messages: " + to_text(budget, *given[0]));
}

// Pairs of a mapping or of a list of pairs, then arguments by name, as Python's dict().
std::vector<std::pair<Value, Value>> pairs_of(Budget& budget, const Arguments& given,
                                              const std::string& function) {
  if (given.places.size() > 1)
    fail("'" + function + "': " + std::to_string(given.places.size()) +
         " arguments by place, expected at most 1");
  std::vector<std::pair<Value, Value>> all;
  if (!given.places.empty()) {
    if (const Mapping* const mapping = given.places[0].mapping()) {
      all = mapping->items;
    } else {
      for (const Value& pair : elements_of(budget, given.places[0], function)) {
        const Values parts = elements_of(budget, pair, function);
        if (parts.size() != 2) fail("'" + function + "': expected pairs of a key and a value");
        all.emplace_back(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : given.names) all.emplace_back(text_value(budget, name), value);
  return all;
}

Value dict(Budget& budget, const Arguments& given) {
  return mapping_value(budget, pairs_of(budget, given, "dict"));
}

Value make_namespace(Budget& budget, const Arguments& given, Namespaces& namespaces) {
  auto made = std::make_shared<Namespace>();
  const Value members = mapping_value(budget, pairs_of(budget, given, "namespace"));
  for (const auto& [key, value] : members.mapping()->items) {
    if (!key.is_text()) fail("'namespace': a member " + kind_of(key) + ", expected texts");
    made->members.emplace_back(key.text(), value);
  }
  namespaces.push_back(made);
  return Value(std::move(made));
}

Value range(Budget& budget, const Arguments& arguments) {
  constexpr std::int64_t kMostElements = 100'000;  // of Jinja's sandbox
  const Bound given = bind("range", arguments, {"start", "stop", "step"}, 1, Naming::refused);
  const bool has_end = given.has(1);
  const std::int64_t begin = has_end ? given.whole(0, 0) : 0;
  const std::int64_t end = has_end ? given.whole(1, 0) : given.whole(0, 0);
  const std::int64_t step = given.whole(2, 1);
  if (step == 0) fail("'range' by steps of 0, expected another number");
  Values all;
  for (std::int64_t at = begin; step > 0 ? at < end : at > end;) {
    if (std::ssize(all) == kMostElements)
      fail("'range' of more than 100000 numbers, expected fewer");
    all.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  Sequence made = *sequence_value(budget, std::move(all), Sequence::Form::range).sequence();
  made.bounds = {begin, end, step};
  return Value(std::shared_ptr<const Sequence>(std::make_shared<Sequence>(std::move(made))));
}

Value joiner(Budget& budget, const Arguments& arguments) {
  const Bound given = bind("joiner", arguments, {"sep"});
  const Value between = given[0].value_or(text_value(budget, ", "));
  return function_value(
      "joiner",
      [between, used = std::make_shared<bool>(false)](Budget& b, const Arguments& none) {
        (void)bind("joiner", none, {});
        return std::exchange(*used, true) ? between : text_value(b, "");
      },
      depth_of(between) + 1);
}

std::tm date_of(const std::string& today) {
  std::tm date{};
  if (today.empty()) {
    const std::time_t now = std::time(nullptr);
    ::localtime_r(&now, &date);
  } else {
    const char* const end = ::strptime(today.c_str(), "%Y-%m-%d", &date);
    if (end == nullptr || *end != '\0') fail("date '" + today + "', expected YYYY-MM-DD");
  }
  return date;
}

// The date by strftime() of Python, whose time knows no zone.
Value now(Budget& budget, const Arguments& arguments, const std::string& today) {
  const Bound given = bind("strftime_now", arguments, {"format"}, 1);
  std::string format;
  const std::string& text = given.text(0);
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char code = text[at] == '%' && at + 1 < text.size() ? text[at + 1] : ' ';
    if (code == 'f') fail("'strftime_now': %f, expected no microseconds");
    if (code != 'z' && code != 'Z') {
      format += text[at];
      if (code == '%') format += '%';
    }
    if (code == 'z' || code == 'Z' || code == '%') ++at;
  }
  if (format.empty()) return text_value(budget, "");
  if (format.find('\0') != std::string::npos)
    fail("'strftime_now': a zero character in the format");
  const std::tm date = date_of(today);
  // One character more, as an empty result and one that does not fit are both 0.
  format += '.';
  constexpr std::size_t kLongest = 4096;
  std::array<char, kLongest> made{};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const std::size_t size = std::strftime(made.data(), made.size(), format.c_str(), &date);
#pragma GCC diagnostic pop
  if (size == 0) fail("'strftime_now': a date of more than 4096 bytes, expected a shorter format");
  return text_value(budget, valid_utf8({made.data(), size - 1}));
}

}  // namespace

std::map<std::string, Value, std::less<>> functions(const std::string& today,
                                                    Namespaces& namespaces) {
  std::map<std::string, Value, std::less<>> all;
  const auto add = [&all](const char* name, auto call) {
    all.emplace(name, function_value(name, std::move(call)));
  };
  add("raise_exception", raise_exception);
  add("dict", dict);
  add("range", range);
  add("joiner", joiner);
  add("namespace", [&namespaces](Budget& budget, const Arguments& given) {
    return make_namespace(budget, given, namespaces);
  });
  add("strftime_now",
      [today](Budget& budget, const Arguments& given) { return now(budget, given, today); });
  for (const char* const name : {"lipsum", "cycler", "self"})
    all.emplace(name, function_value(name));
  return all;
}

}  // namespace tandem::exec::chat
