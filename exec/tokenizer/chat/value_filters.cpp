#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "exec/tokenizer/chat/arithmetic.hpp"
#include "exec/tokenizer/chat/elements.hpp"
#include "exec/tokenizer/chat/filters.hpp"
#include "exec/tokenizer/chat/json_text.hpp"
#include "exec/tokenizer/chat/numbers.hpp"
#include "exec/tokenizer/chat/percent_format.hpp"
#include "exec/tokenizer/chat/python_text.hpp"
#include "exec/tokenizer/chat/text_functions.hpp"
#include "exec/tokenizer/utf8.hpp"

namespace tandem::exec::chat {
namespace {

template <Case kCase>
Value case_filter(Budget& budget, const Value& value, const Arguments& given) {
  (void)bind("a filter that changes the case", given, {});
  return cased_value(budget, to_text(budget, value), kCase);
}

// Words begin behind white space and - ( { [ <, unlike str.title()'s.
Value title(Budget& budget, const Value& value, const Arguments& given) {
  (void)bind("title", given, {});
  const std::string text = to_text(budget, value);
  budget.read(text.size() * 16);
  const auto parts_words = [](std::int32_t code) {
    return is_space(code) ||
           (code < 0x80 &&
            std::string_view("-({[<").find(static_cast<char>(code)) != std::string_view::npos);
  };
  TextBuilder all(budget);
  std::size_t begin = 0;
  while (begin < text.size()) {
    const Utf8Character first = character_at(text, begin);
    const bool is_gap = parts_words(first.code);
    std::size_t end = begin + first.bytes;
    while (end < text.size() && parts_words(character_at(text, end).code) == is_gap)
      end += character_at(text, end).bytes;
    const std::string_view word = std::string_view(text).substr(begin, end - begin);
    all.append(cased(word.substr(0, first.bytes), Case::upper));
    all.append(cased(word.substr(first.bytes), Case::lower));
    begin = end;
  }
  return all.take();
}

Value trim(Budget& budget, const Value& value, const Arguments& arguments) {
  const Bound given = bind("trim", arguments, {"chars"});
  return stripped_of(budget, to_text(budget, value), true, true, given[0].value_or(Value(None{})));
}

Value replace(Budget& budget, const Value& value, const Arguments& arguments) {
  const Bound given = bind("replace", arguments, {"old", "new", "count"}, 2);
  const std::int64_t most =
      given.has(2) && !given[2]->is_none() ? given.whole(2, kAllTimes) : kAllTimes;
  return replaced(budget, to_text(budget, value), to_text(budget, *given[0]),
                  to_text(budget, *given[1]), most < 0 ? kAllTimes : most);
}

Value indent(Budget& budget, const Value& value, const Arguments& arguments) {
  const Bound given = bind("indent", arguments, {"width", "first", "blank"});
  if (!value.is_text()) fail("the filter 'indent' of " + kind_of(value) + ", expected a text");
  std::string space;
  if (given.has(0) && given[0]->is_text()) {
    space = given[0]->text();
  } else {
    const std::int64_t width = std::max<std::int64_t>(0, given.whole(0, 4));
    Budget::expect_text(static_cast<std::size_t>(width));
    space.assign(static_cast<std::size_t>(width), ' ');
  }
  const bool first = given.truth(1, false);
  const bool blank = given.truth(2, false);
  budget.read(value.text().size() * 16);
  const std::string text = value.text() + '\n';
  TextBuilder all(budget);
  bool is_first = true;
  for (const std::string_view line : lines_of(text, false)) {
    if (!is_first) all.append("\n");
    if (is_first ? first : blank || !line.empty()) all.append(space);
    all.append(line);
    is_first = false;
  }
  return all.take();
}

Value center(Budget& budget, const Value& value, const Arguments& arguments) {
  return padded(budget, to_text(budget, value), bind("center", arguments, {"width"}).whole(0, 80),
                " ", Padding::both);
}

Value wordcount(Budget& budget, const Value& value, const Arguments& given) {
  (void)bind("wordcount", given, {});
  const std::string text = to_text(budget, value);
  budget.read(text.size() * 128);
  std::int64_t count = 0;
  bool within = false;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character one = character_at(text, at);
    const std::string_view character = std::string_view(text).substr(at, one.bytes);
    const bool is_word = one.code == '_' || passes("isalnum", character);
    if (is_word && !within) ++count;
    within = is_word;
    at += one.bytes;
  }
  return Value(count);
}

Value escaped(Budget& budget, const Value& value, const Arguments& given) {
  (void)bind("escape", given, {});
  if (const Text* const text = value.get<Text>(); text != nullptr && text->safe) return value;
  constexpr std::string_view kSigns = "&<>'\"";
  constexpr std::array<std::string_view, 5> kWritten{"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  TextBuilder all(budget);
  for (const char& c : to_text(budget, value)) {
    const std::size_t sign = kSigns.find(c);
    all.append(sign == std::string_view::npos ? std::string_view(&c, 1) : kWritten.at(sign));
  }
  Text made = *all.take().get<Text>();
  made.safe = true;
  return Value(made);
}

Value safe(Budget& budget, const Value& value, const Arguments& given) {
  (void)bind("safe", given, {});
  Text made = value.is_text() ? *value.get<Text>()
                              : *text_value(budget, to_text(budget, value)).get<Text>();
  made.safe = true;
  return Value(made);
}

Value default_filter(Budget& /*budget*/, const Value& value, const Arguments& arguments) {
  const Bound given = bind("default", arguments, {"default_value", "boolean"});
  const bool missing = value.is_undefined() || (given.truth(1, false) && !is_true(value));
  if (!missing) return value;
  return given[0].value_or(Value(Text{std::make_shared<const std::string>()}));
}

Value tojson(Budget& budget, const Value& value, const Arguments& arguments) {
  const Bound given =
      bind("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonForm form{.ascii = given.truth(0, false), .sorted = given.truth(3, false)};
  if (given.has(1) && !given[1]->is_none()) {
    form.broken = true;
    form.between = ",";
    if (given[1]->is_text()) {
      form.indent = given[1]->text();
    } else {
      const std::int64_t width = std::max<std::int64_t>(0, given.whole(1, 0));
      Budget::expect_text(static_cast<std::size_t>(width));
      form.indent.assign(static_cast<std::size_t>(width), ' ');
    }
  }
  if (given.has(2) && !given[2]->is_none()) {
    const Sequence* const pair = given[2]->sequence();
    if (pair == nullptr || pair->items.size() != 2 || !pair->items[0].is_text() ||
        !pair->items[1].is_text())
      fail("'tojson': separators of " + kind_of(*given[2]) + ", expected two texts");
    form.between = pair->items[0].text();
    form.behind_key = pair->items[1].text();
  }
  return text_value(budget, to_json(budget, value, form));
}

Value string(Budget& budget, const Value& value, const Arguments& given) {
  (void)bind("string", given, {});
  return value.is_text() ? value : text_value(budget, to_text(budget, value));
}

Value format(Budget& budget, const Value& value, const Arguments& given) {
  const std::string text = to_text(budget, value);
  if (given.names.empty())
    return percent_format(budget, text,
                          sequence_value(budget, given.places, Sequence::Form::tuple));
  if (!given.places.empty()) fail("'format': values by place and by name, expected one of both");
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [name, one] : given.names) items.emplace_back(text_value(budget, name), one);
  return percent_format(budget, text, mapping_value(budget, std::move(items)));
}

Value int_filter(Budget& budget, const Value& value, const Arguments& arguments) {
  const Bound given = bind("int", arguments, {"default", "base"});
  Value otherwise = given[0].value_or(Value(std::int64_t{0}));
  const std::int64_t base = given.whole(1, 10);
  if (value.is_undefined()) fail("the filter 'int' of " + kind_of(value) + ", expected a number");
  if (value.whole()) return Value(*value.whole());
  std::optional<double> real;
  if (const double* const number = value.get<double>()) real = *number;
  if (value.is_text()) {
    budget.read(value.text().size() * 16);
    if (const std::optional<std::int64_t> whole = read_whole(value.text(), base))
      return Value(*whole);
    real = read_real(value.text());
  }
  if (!real || std::isnan(*real)) return otherwise;
  return Value(truncated(*real));
}

Value float_filter(Budget& budget, const Value& value, const Arguments& arguments) {
  const Bound given = bind("float", arguments, {"default"});
  if (value.is_undefined()) fail("the filter 'float' of " + kind_of(value) + ", expected a number");
  if (value.get<double>() != nullptr) return value;
  if (value.whole()) return Value(static_cast<double>(*value.whole()));
  if (value.is_text()) {
    budget.read(value.text().size() * 16);
    if (const std::optional<double> real = read_real(value.text())) return Value(*real);
  }
  return given[0].value_or(Value(0.0));
}

Value abs_filter(Budget& /*budget*/, const Value& value, const Arguments& given) {
  (void)bind("abs", given, {});
  if (!value.is_number()) fail("the filter 'abs' of " + kind_of(value) + ", expected a number");
  if (const double* const real = value.get<double>()) return Value(std::abs(*real));
  return *value.whole() < 0 ? with_sign("-", value) : with_sign("+", value);
}

Value round_filter(Budget& budget, const Value& value, const Arguments& arguments) {
  const Bound given = bind("round", arguments, {"precision", "method"});
  const std::int64_t digits = given.whole(0, 0);
  const std::string method = given.has(1) ? given.text(1) : "common";
  if (!value.is_number()) fail("the filter 'round' of " + kind_of(value) + ", expected a number");
  if (digits < 0 || digits > 300)
    fail("the filter 'round' to " + std::to_string(digits) + " digits, expected 0 to 300");
  if (method == "common") {
    if (value.whole()) return Value(*value.whole());
    return Value(rounded(*value.get<double>(), static_cast<int>(digits)));
  }
  if (method != "ceil" && method != "floor")
    fail("the filter 'round' by '" + method + "', expected common, ceil or floor");
  const Value power = calculated(budget, "**", Value(std::int64_t{10}), Value(digits));
  const Value larger = calculated(budget, "*", value, power);
  const double* const real = larger.get<double>();
  if (real != nullptr && !std::isfinite(*real))
    fail("the filter 'round' of a number that is not finite, expected a finite one");
  const Value whole =
      real == nullptr ? larger
                      : Value(truncated(method == "ceil" ? std::ceil(*real) : std::floor(*real)));
  return calculated(budget, "/", whole, power);
}

Value length(Budget& budget, const Value& value, const Arguments& given) {
  (void)bind("length", given, {});
  return Value(static_cast<std::int64_t>(size_of(budget, value, "length")));
}

}  // namespace

const Filters& value_filters() {
  static const Filters all{{"abs", abs_filter},     {"capitalize", case_filter<Case::capitalize>},
                           {"center", center},      {"count", length},
                           {"d", default_filter},   {"default", default_filter},
                           {"e", escaped},          {"escape", escaped},
                           {"float", float_filter}, {"format", format},
                           {"indent", indent},      {"int", int_filter},
                           {"length", length},      {"lower", case_filter<Case::lower>},
                           {"replace", replace},    {"round", round_filter},
                           {"safe", safe},          {"string", string},
                           {"title", title},        {"tojson", tojson},
                           {"trim", trim},          {"upper", case_filter<Case::upper>},
                           {"wordcount", wordcount}};
  return all;
}

}  // namespace tandem::exec::chat
