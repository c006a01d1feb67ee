#include "exec/tokenizer/chat/builtins.hpp"

#include <unicode/locid.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "exec/tokenizer/utf8.hpp"
#include "model/error.hpp"

namespace tandem::exec::chat {

void fail(const std::string& text) { throw Error("chat template: " + text); }

namespace {

constexpr std::size_t kNowhere =
    std::numeric_limits<std::size_t>::max();             // of arguments by name alone
constexpr std::size_t kLongest = std::size_t{4} << 20U;  // text that is taken apart
constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

const std::string& text_of(const Value& value, const std::string& who) {
  if (!value.is_string()) fail(who + " of " + kind_of(value) + ", expected a text");
  return value.get_ref<const std::string&>();
}

std::int64_t whole_of(const Value& value, const std::string& who) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (!value.is_number_integer()) fail(who + " of " + kind_of(value) + ", expected a whole number");
  return value.get<std::int64_t>();
}

std::vector<std::string> characters(const std::string& text) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = std::max<std::size_t>(1, character_at(text, at).bytes);
    all.push_back(text.substr(at, bytes));
    at += bytes;
  }
  return all;
}

enum class Case { upper, lower, capital };

std::string cased(const std::string& text, Case wanted) {
  const auto to = [](const std::string& part, bool upper) {
    icu::UnicodeString letters = icu::UnicodeString::fromUTF8(part);
    if (upper) {
      letters.toUpper(icu::Locale::getRoot());
    } else {
      letters.toLower(icu::Locale::getRoot());
    }
    std::string made;
    letters.toUTF8String(made);
    return made;
  };
  if (wanted != Case::capital) return to(text, wanted == Case::upper);
  const std::size_t first = character_at(text, 0).bytes;
  icu::UnicodeString title = icu::UnicodeString::fromUTF8(text.substr(0, first));
  title.toTitle(nullptr, icu::Locale::getRoot());
  std::string made;
  title.toUTF8String(made);
  return made + to(text.substr(first), false);
}

std::string replaced(const std::string& text, const std::string& what, const std::string& with,
                     std::int64_t most) {
  if (what.empty()) fail("replace of an empty text, expected some characters");
  std::string all;
  std::size_t at = 0;
  for (; most > 0; --most) {
    const std::size_t found = text.find(what, at);
    if (found == std::string::npos) break;
    all.append(text, at, found - at).append(with);
    all = bounded(std::move(all));
    at = found + what.size();
  }
  return all.append(text, at);
}

Value split(const std::string& text, const Value& separator, std::int64_t most) {
  Value parts = Value::array();
  if (is_undefined(separator) || separator.is_null()) {
    std::string rest = stripped(text, true, false);
    while (!rest.empty()) {
      std::size_t end = 0;
      while (end < rest.size() &&
             !stripped(rest.substr(end, character_at(rest, end).bytes), true, false).empty())
        end += character_at(rest, end).bytes;
      if (most-- == 0) {
        parts.push_back(stripped(rest, false, true));
        return parts;
      }
      parts.push_back(rest.substr(0, end));
      rest = stripped(rest.substr(end), true, false);
    }
    return parts;
  }
  const std::string& sign = text_of(separator, "split");
  if (sign.empty()) fail("split by an empty text, expected some characters");
  std::size_t at = 0;
  for (std::size_t found = text.find(sign); found != std::string::npos && most-- > 0;
       found = text.find(sign, at)) {
    parts.push_back(text.substr(at, found - at));
    at = found + sign.size();
  }
  parts.push_back(text.substr(at));
  return parts;
}

// Without any of some characters at its ends.
std::string stripped_of(const std::string& text, bool left, bool right, const Value& which) {
  if (is_undefined(which) || which.is_null()) return stripped(text, left, right);
  const std::vector<std::string> gone = characters(text_of(which, "strip"));
  std::vector<std::string> kept = characters(text);
  const auto is_gone = [&](const std::string& one) {
    return std::ranges::find(gone, one) != gone.end();
  };
  while (right && !kept.empty() && is_gone(kept.back())) kept.pop_back();
  const auto begin = left ? std::ranges::find_if_not(kept, is_gone) : kept.begin();
  std::string all;
  for (auto at = begin; at != kept.end(); ++at) all += *at;
  return all;
}

Value joined(const Value& parts, const std::string& between) {
  std::string all;
  bool first = true;
  for (const Value& part : elements(parts)) {
    if (!first) all += between;
    first = false;
    all += to_text(part);
    all = bounded(std::move(all));
  }
  return all;
}

bool begins_or_ends(const std::string& text, const Value& with, bool begins) {
  if (with.is_array()) {
    return std::ranges::any_of(with,
                               [&](const Value& one) { return begins_or_ends(text, one, begins); });
  }
  const std::string& part = text_of(with, begins ? "startswith" : "endswith");
  return begins ? text.starts_with(part) : text.ends_with(part);
}

Value text_method(const std::string& text, const std::string& name, const Given& given) {
  if (name == "strip") return stripped_of(text, true, true, given.at(0, "chars"));
  if (name == "lstrip") return stripped_of(text, true, false, given.at(0, "chars"));
  if (name == "rstrip") return stripped_of(text, false, true, given.at(0, "chars"));
  if (name == "upper") return cased(text, Case::upper);
  if (name == "lower") return cased(text, Case::lower);
  if (name == "capitalize") return cased(text, Case::capital);
  if (name == "startswith") return begins_or_ends(text, given.at(0, "prefix"), true);
  if (name == "endswith") return begins_or_ends(text, given.at(0, "suffix"), false);
  if (name == "join") return joined(given.at(0, "iterable"), text);
  if (name == "split") {
    const std::int64_t most = whole_of(given.at(1, "maxsplit", -1), "split");
    return split(text, given.at(0, "sep"), most < 0 ? kAll : most);
  }
  if (name == "replace") {
    const std::int64_t most = whole_of(given.at(2, "count", -1), "replace");
    return replaced(text, text_of(given.at(0, "old"), "replace"),
                    text_of(given.at(1, "new"), "replace"), most < 0 ? kAll : most);
  }
  if (name == "find") {
    const std::size_t at = text.find(text_of(given.at(0, "sub"), "find"));
    if (at == std::string::npos) return -1;
    return characters(text.substr(0, at)).size();
  }
  fail("method '" + name +
       "' of a text, expected strip, split, replace, startswith, endswith, "
       "upper, lower, capitalize, join or find");
}

Value pairs_of(const Value& mapping) {
  Value all = Value::array();
  for (const auto& [key, value] : mapping.items()) all.push_back(Value::array({key, value}));
  return all;
}

Value keys_of(const Value& mapping) {
  Value all = Value::array();
  for (const auto& [key, value] : mapping.items()) all.push_back(key);
  return all;
}

// "a.b": member by member.
Value attribute_of(const Value& of, const Value& path) {
  if (!path.is_string()) return member(of, path);
  Value at = of;
  for (const Value& part : split(path.get<std::string>(), ".", kAll)) at = member(at, part);
  return at;
}

// select, reject, selectattr and rejectattr: those that a test, or their truth, picks.
Value picked(const std::string& filter, const Value& value, const Given& given) {
  const bool by_attribute = filter.ends_with("attr");
  const bool wanted = filter.starts_with("select");
  const std::size_t test_at = by_attribute ? 1 : 0;
  const Value test = given.at(test_at, "");
  if (!given.named.empty()) fail("'" + filter + "': arguments by name, expected them by place");
  Given rest;
  for (std::size_t i = test_at + 1; i < given.values.size(); ++i)
    rest.values.push_back(given.values[i]);
  Value all = Value::array();
  for (const Value& one : elements(value)) {
    const Value looked_at = by_attribute ? attribute_of(one, given.at(0, "")) : one;
    const bool is_so =
        is_undefined(test) ? is_true(looked_at) : tested(text_of(test, filter), looked_at, rest);
    if (is_so == wanted) all.push_back(one);
  }
  return all;
}

Value mapped(const Value& value, const Given& given) {
  const Value attribute = given.at(kNowhere, "attribute");
  const Value otherwise = given.at(kNowhere, "default");
  if (!is_undefined(attribute)) given.expect_taken("map");
  Value all = Value::array();
  for (const Value& one : elements(value)) {
    if (!is_undefined(attribute)) {
      const Value found = attribute_of(one, attribute);
      all.push_back(is_undefined(found) ? otherwise : found);
      continue;
    }
    Given rest = given;
    if (rest.values.empty()) fail("map without a filter, expected its name or attribute=");
    rest.values.erase(rest.values.begin());
    all.push_back(filtered(text_of(given.values.front(), "map"), one, rest));
  }
  return all;
}

Value number_from(const Value& value, bool whole, const Value& otherwise) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  double number = 0.0;
  if (value.is_number()) {
    number = value.get<double>();
  } else {
    const Value read =
        value.is_string()
            ? Value::parse(stripped(value.get<std::string>(), true, true), nullptr, false)
            : undefined();
    if (!read.is_number()) return otherwise;
    number = read.get<double>();
  }
  if (!whole) return number;
  constexpr double kExact = 9007199254740992.0;
  if (!(std::abs(number) < kExact)) return otherwise;
  return static_cast<std::int64_t>(number);
}

std::string indented(const std::string& text, const Given& given) {
  const auto width = static_cast<std::size_t>(
      std::clamp<std::int64_t>(whole_of(given.at(0, "width", 4), "indent"), 0, 1000));
  const bool first = is_true(given.at(1, "first", false));
  const bool blank = is_true(given.at(2, "blank", false));
  const std::string space(width, ' ');
  std::string all;
  std::size_t at = 0;
  for (bool is_first = true; at <= text.size(); is_first = false) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (!is_first) all += '\n';
    if ((is_first ? first : true) && (end > at || (blank && !is_first) || (is_first && first)))
      all += space;
    all.append(text, at, end - at);
    all = bounded(std::move(all));
    at = end + 1;
  }
  return all;
}

using Test = std::function<bool(const Value&, const Given&)>;

const std::map<std::string, Test>& tests() {
  const auto kind = [](bool (*is)(const Value&)) {
    return [is](const Value& value, const Given& given) {
      if (!given.values.empty()) fail("an argument for a test that takes none");
      return is(value);
    };
  };
  const Test equals = [](const Value& a, const Given& g) { return equal(a, g.at(0, "")); };
  const Test above = [](const Value& a, const Given& g) { return less(g.at(0, ""), a); };
  const Test below = [](const Value& a, const Given& g) { return less(a, g.at(0, "")); };
  const auto unequal = [](const Value& a, const Given& g) { return !equal(a, g.at(0, "")); };
  static const std::map<std::string, Test> all{
      {"defined", kind([](const Value& v) { return !is_undefined(v); })},
      {"undefined", kind([](const Value& v) { return is_undefined(v); })},
      {"none", kind([](const Value& v) { return v.is_null(); })},
      {"string", kind([](const Value& v) { return v.is_string(); })},
      {"mapping", kind([](const Value& v) { return v.is_object(); })},
      {"iterable",
       kind([](const Value& v) { return v.is_structured() || v.is_string() || is_undefined(v); })},
      {"sequence",
       kind([](const Value& v) { return v.is_structured() || v.is_string() || is_undefined(v); })},
      {"number", kind([](const Value& v) { return v.is_number() || v.is_boolean(); })},
      {"integer", kind([](const Value& v) { return v.is_number_integer(); })},
      {"float", kind([](const Value& v) { return v.is_number_float(); })},
      {"boolean", kind([](const Value& v) { return v.is_boolean(); })},
      {"true", kind([](const Value& v) { return v.is_boolean() && v.get<bool>(); })},
      {"false", kind([](const Value& v) { return v.is_boolean() && !v.get<bool>(); })},
      {"odd", kind([](const Value& v) { return whole_of(v, "odd") % 2 != 0; })},
      {"even", kind([](const Value& v) { return whole_of(v, "even") % 2 == 0; })},
      {"lower", kind([](const Value& v) { return to_text(v) == cased(to_text(v), Case::lower); })},
      {"upper", kind([](const Value& v) { return to_text(v) == cased(to_text(v), Case::upper); })},
      {"divisibleby",
       [](const Value& a, const Given& g) {
         const std::int64_t by = whole_of(g.at(0, "num"), "divisibleby");
         if (by == 0) fail("a division by zero");
         return whole_of(a, "divisibleby") % by == 0;
       }},
      {"in", [](const Value& a, const Given& g) { return contains(g.at(0, ""), a); }},
      {"equalto", equals},
      {"eq", equals},
      {"ne", unequal},
      {"gt", above},
      {"greaterthan", above},
      {"lt", below},
      {"lessthan", below}};
  return all;
}

using Filter = std::function<Value(const Value&, const Given&)>;

std::size_t length_of(const Value& value) {
  if (is_undefined(value)) return 0;
  if (!value.is_string() && !value.is_structured())
    fail("length of " + kind_of(value) + ", expected a text, a list or a mapping");
  if (!value.is_string()) return value.size();
  // Bytes that begin a character.
  return static_cast<std::size_t>(std::ranges::count_if(
      value.get_ref<const std::string&>(),
      [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

Value default_of(const Value& value, const Given& given) {
  const bool missing =
      is_true(given.at(1, "boolean", false)) ? !is_true(value) : is_undefined(value);
  const Value otherwise = given.at(0, "default_value", "");
  return missing ? otherwise : value;
}

Value first_or_last(const Value& value, bool first) {
  const std::vector<Value> all = elements(value);
  if (all.empty()) return undefined();
  return first ? all.front() : all.back();
}

const std::map<std::string, Filter>& filters() {
  const Filter length = [](const Value& v, const Given&) { return Value(length_of(v)); };
  const Filter alone = [](const Value& v, const Given&) { return v; };
  const Filter items = [](const Value& v, const Given& g) {
    return is_undefined(v) ? Value::array() : method(v, "items", g);
  };
  static const std::map<std::string, Filter> all{
      {"trim",
       [](const Value& v, const Given& g) {
         return Value(stripped_of(to_text(v), true, true, g.at(0, "chars")));
       }},
      {"length", length},
      {"count", length},
      {"upper", [](const Value& v, const Given&) { return Value(cased(to_text(v), Case::upper)); }},
      {"lower", [](const Value& v, const Given&) { return Value(cased(to_text(v), Case::lower)); }},
      {"capitalize",
       [](const Value& v, const Given&) { return Value(cased(to_text(v), Case::capital)); }},
      {"default", default_of},
      {"d", default_of},
      {"join",
       [](const Value& v, const Given& g) {
         const Value attribute = g.at(1, "attribute");
         Value parts = Value::array();
         for (const Value& one : elements(v))
           parts.push_back(is_undefined(attribute) ? one : attribute_of(one, attribute));
         return joined(parts, to_text(g.at(0, "d", "")));
       }},
      {"tojson",
       [](const Value& v, const Given& g) {
         const Value indent = g.at(kNowhere, "indent", nullptr);
         return Value(to_json(v, indent.is_null()
                                     ? -1
                                     : static_cast<int>(std::clamp<std::int64_t>(
                                           whole_of(indent, "tojson's indent"), 0, 100))));
       }},
      {"string", [](const Value& v, const Given&) { return Value(to_text(v)); }},
      {"int",
       [](const Value& v, const Given& g) { return number_from(v, true, g.at(0, "default", 0)); }},
      {"float", [](const Value& v,
                   const Given& g) { return number_from(v, false, g.at(0, "default", 0.0)); }},
      {"list", [](const Value& v, const Given&) { return Value(elements(v)); }},
      {"first", [](const Value& v, const Given&) { return first_or_last(v, true); }},
      {"last", [](const Value& v, const Given&) { return first_or_last(v, false); }},
      {"replace",
       [](const Value& v, const Given& g) { return text_method(to_text(v), "replace", g); }},
      {"safe", alone},
      {"items", items},
      {"map", mapped},
      {"indent", [](const Value& v, const Given& g) { return Value(indented(to_text(v), g)); }},
      {"reverse",
       [](const Value& v, const Given&) { return slice(v, undefined(), undefined(), -1); }},
      {"abs", [](const Value& v, const Given&) {
         return v.is_number_float() ? Value(std::abs(v.get<double>()))
                                    : Value(std::abs(whole_of(v, "abs")));
       }}};
  return all;
}

template <class Table>
std::string names_of(const Table& table) {
  std::string names;
  for (const auto& [name, unused] : table) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace

Value Given::at(std::size_t place, const std::string& name, const Value& otherwise) const {
  asked.insert(name);
  if (place < kNowhere) taken = std::max(taken, place + 1);
  if (place < values.size()) return values[place];
  const auto found = named.find(name);
  return found == named.end() ? otherwise : found->second;
}

void Given::expect_taken(const std::string& by) const {
  if (taken < values.size())
    fail("'" + by + "': " + std::to_string(values.size()) + " arguments, expected at most " +
         std::to_string(taken));
  const auto unknown = std::ranges::find_if(
      named, [this](const auto& argument) { return !asked.contains(argument.first); });
  if (unknown != named.end())
    fail("'" + by + "': argument '" + unknown->first + "' is not known, expected another one");
}

Value filtered(const std::string& filter, const Value& value, const Given& given) {
  // What these are given is their test's.
  if (filter == "select" || filter == "reject" || filter == "selectattr" || filter == "rejectattr")
    return picked(filter, value, given);
  const auto found = filters().find(filter);
  if (found == filters().end())
    fail("filter '" + filter + "': not known, expected one of " + names_of(filters()) +
         ", select, reject, selectattr, rejectattr");
  Value made = found->second(value, given);
  // What `map` is given is its filter's.
  if (filter != "map") given.expect_taken(filter);
  return made;
}

bool tested(const std::string& test, const Value& value, const Given& given) {
  const auto found = tests().find(test);
  if (found == tests().end())
    fail("test '" + test + "': not known, expected one of " + names_of(tests()));
  const bool is_so = found->second(value, given);
  given.expect_taken(test);
  return is_so;
}

namespace {

Value method_of(const Value& of, const std::string& name, const Given& given) {
  if (of.is_string()) return text_method(of.get_ref<const std::string&>(), name, given);
  if (of.is_object()) {
    if (name == "items") return pairs_of(of);
    if (name == "keys") return keys_of(of);
    if (name == "values") {
      Value all = Value::array();
      for (const auto& [key, value] : of.items()) all.push_back(value);
      return all;
    }
    if (name == "get") {
      const Value found = member(of, given.at(0, "key"));
      const Value otherwise = given.at(1, "default", nullptr);
      return is_undefined(found) ? otherwise : found;
    }
  }
  fail("'" + name + "' of " + kind_of(of) + " is called, expected a method that templates have");
}

}  // namespace

Value method(const Value& of, const std::string& name, const Given& given) {
  Value made = method_of(of, name, given);
  given.expect_taken(name);
  return made;
}

Value member(const Value& of, const Value& index) {
  if (is_undefined(of))
    fail("'" + to_text(index) + "' of what is not defined, expected a value that has it");
  if (of.is_object()) {
    if (!index.is_string()) return undefined();
    const auto found = of.find(index.get_ref<const std::string&>());
    return found == of.end() ? undefined() : *found;
  }
  if ((of.is_array() || of.is_string()) && index.is_number_integer()) {
    const std::vector<Value> all = elements(of);
    auto at = index.get<std::int64_t>();
    if (at < 0) at += std::ssize(all);
    return at < 0 || at >= std::ssize(all) ? undefined() : all[static_cast<std::size_t>(at)];
  }
  return undefined();
}

Value slice(const Value& of, const Value& begin, const Value& end, const Value& step) {
  if (!of.is_array() && !of.is_string())
    fail("a part of " + kind_of(of) + ", expected a list or a text");
  const std::vector<Value> all = elements(of);
  const auto size = std::ssize(all);
  const auto missing = [](const Value& value) { return is_undefined(value) || value.is_null(); };
  const std::int64_t by = missing(step) ? 1 : whole_of(step, "the step of a slice");
  if (by == 0) fail("a slice by steps of 0, expected another number");
  // Python's slice.indices().
  const auto bound = [&](const Value& value, std::int64_t otherwise) {
    if (missing(value)) return otherwise;
    std::int64_t at = whole_of(value, "the bound of a slice");
    if (at < 0) at = at < -size ? -1 - size : at;
    if (at < 0) at += size;
    return by > 0 ? std::clamp<std::int64_t>(at, 0, size)
                  : std::clamp<std::int64_t>(at, -1, size - 1);
  };
  std::int64_t at = bound(begin, by > 0 ? 0 : size - 1);
  const std::int64_t stop = bound(end, by > 0 ? size : -1);
  Value part = Value::array();
  while (by > 0 ? at < stop : at > stop) {
    part.push_back(all[static_cast<std::size_t>(at)]);
    if (by > size || by < -size) break;
    at += by;
  }
  return of.is_array() ? part : joined(part, "");
}

std::vector<Value> elements(const Value& of) {
  if (is_undefined(of)) return {};
  if (of.is_array()) return {of.begin(), of.end()};
  std::vector<Value> all;
  if (of.is_object()) {
    for (const auto& [key, value] : of.items()) all.emplace_back(key);
    return all;
  }
  if (!of.is_string()) fail("a loop through " + kind_of(of) + ", expected a list");
  if (of.get_ref<const std::string&>().size() > kLongest)
    fail("a text of more than 4 MiB is taken apart, expected a shorter one");
  for (const std::string& one : characters(of.get_ref<const std::string&>())) all.emplace_back(one);
  return all;
}

}  // namespace tandem::exec::chat
