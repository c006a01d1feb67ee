#include "exec/tokenizer/chat/text_methods.hpp"

#include <algorithm>
#include <map>

#include "exec/tokenizer/chat/find_text.hpp"
#include "exec/tokenizer/chat/text_functions.hpp"
#include "exec/tokenizer/utf8.hpp"

namespace tandem::exec::chat {
namespace {

// The part of a text between two characters, for searches in a part.
struct TextPart {
  std::string_view text{};
  std::int64_t begin = 0;  // characters before it
  bool exists = true;      // false: it begins behind the text or its own end
};

TextPart part_of(Budget& budget, const std::string& text, const Bound& given, std::size_t place) {
  const auto is_given = [&](std::size_t at) { return given.has(at) && !given[at]->is_none(); };
  if (!is_given(place) && !is_given(place + 1)) return {text};
  budget.read(2 * text.size());
  const auto size = static_cast<std::int64_t>(length_of(text));
  const auto bound = [&](std::size_t at, std::int64_t otherwise) {
    if (!is_given(at)) return otherwise;
    const std::int64_t value = given.whole(at, otherwise);
    return value < 0 ? std::max<std::int64_t>(0, value < -size ? 0 : value + size) : value;
  };
  const std::int64_t begin = bound(place, 0);
  const std::int64_t end = std::min(bound(place + 1, size), size);
  if (begin > end) return {{}, begin, false};
  const std::size_t first = byte_of(text, static_cast<std::size_t>(begin));
  const std::string_view rest = std::string_view(text).substr(first);
  return {rest.substr(0, byte_of(rest, static_cast<std::size_t>(end - begin))), begin, true};
}

Value found_at(Budget& budget, const std::string& text, const Arguments& arguments,
               const char* name, bool last, bool must) {
  const Bound given = bind(name, arguments, {"sub", "start", "end"}, 1, Naming::refused);
  const std::string& sub = given.text(0);
  const TextPart part = part_of(budget, text, given, 1);
  std::size_t at = std::string::npos;
  if (part.exists)
    at = last ? find_last(budget, part.text, sub) : TextFinder(budget, sub).find(part.text, 0);
  if (at == std::string::npos) {
    if (must) fail(std::string("'") + name + "': the text is not found, expected it");
    return Value(std::int64_t{-1});
  }
  budget.read(at);
  return Value(part.begin + static_cast<std::int64_t>(length_of(part.text.substr(0, at))));
}

Value counted(Budget& budget, const std::string& text, const Arguments& arguments) {
  const Bound given = bind("count", arguments, {"sub", "start", "end"}, 1, Naming::refused);
  const std::string& sub = given.text(0);
  const TextPart part = part_of(budget, text, given, 1);
  budget.read(text.size());
  if (!part.exists) return Value(std::int64_t{0});
  if (sub.empty()) return Value(static_cast<std::int64_t>(length_of(part.text)) + 1);
  TextFinder finder(budget, sub);
  std::int64_t count = 0;
  for (std::size_t at = finder.find(part.text, 0); at != std::string::npos;
       at = finder.find(part.text, at + sub.size()))
    ++count;
  return Value(count);
}

bool stands_at_end(Budget& budget, std::string_view text, const Value& what, bool begins) {
  if (!what.is_text())
    fail(std::string(begins ? "startswith" : "endswith") + " of " + kind_of(what) +
         ", expected a text or a tuple of texts");
  budget.read(what.text().size());
  return begins ? text.starts_with(what.text()) : text.ends_with(what.text());
}

Value begins_or_ends(Budget& budget, const std::string& text, const Arguments& arguments,
                     bool begins) {
  const Bound given = bind(begins ? "startswith" : "endswith", arguments,
                           {"prefix", "start", "end"}, 1, Naming::refused);
  const TextPart part = part_of(budget, text, given, 1);
  const Sequence* const tuple = given[0]->sequence();
  if (tuple == nullptr || tuple->form != Sequence::Form::tuple)
    return Value(stands_at_end(budget, part.text, *given[0], begins) && part.exists);
  return Value(std::ranges::any_of(tuple->items, [&](const Value& one) {
    return stands_at_end(budget, part.text, one, begins) && part.exists;
  }));
}

Value partitioned(Budget& budget, const std::string& text, const Arguments& arguments, bool last) {
  const Bound given = bind("partition", arguments, {"sep"}, 1, Naming::refused);
  const std::string& sign = given.text(0);
  if (sign.empty()) fail("partition by an empty text, expected some characters");
  const std::size_t at =
      last ? find_last(budget, text, sign) : TextFinder(budget, sign).find(text, 0);
  const bool found = at != std::string::npos;
  const auto made = [&](std::string part) { return text_value(budget, std::move(part)); };
  Values parts;
  if (found) {
    parts = {made(text.substr(0, at)), made(sign), made(text.substr(at + sign.size()))};
  } else if (last) {
    parts = {made(""), made(""), made(text)};
  } else {
    parts = {made(text), made(""), made("")};
  }
  return sequence_value(budget, std::move(parts), Sequence::Form::tuple);
}

Value padded_by(Budget& budget, const std::string& text, const Arguments& arguments,
                const char* name, Padding where) {
  const Bound given = bind(name, arguments, {"width", "fillchar"}, 1, Naming::refused);
  const std::string fill = given.has(1) ? given.text(1) : " ";
  if (length_of(fill) != 1)
    fail(std::string("'") + name + "': expected one character to fill with");
  return padded(budget, text, given.whole(0, 0), fill, where);
}

Value zero_filled(Budget& budget, const std::string& text, const Arguments& arguments) {
  const Bound given = bind("zfill", arguments, {"width"}, 1, Naming::refused);
  const bool has_sign = text.starts_with('+') || text.starts_with('-');
  const std::string sign = has_sign ? text.substr(0, 1) : "";
  const Value rest =
      padded(budget, text.substr(sign.size()),
             given.whole(0, 0) - static_cast<std::int64_t>(sign.size()), "0", Padding::left);
  return text_value(budget, sign + rest.text());
}

Value tabs_expanded(Budget& budget, const std::string& text, const Arguments& arguments) {
  const std::int64_t width = bind("expandtabs", arguments, {"tabsize"}).whole(0, 8);
  TextBuilder all(budget);
  std::int64_t column = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_at(text, at).bytes;
    const char c = text[at];
    if (c == '\t') {
      const std::int64_t spaces = width > 0 ? width - column % width : 0;
      all.append(static_cast<std::size_t>(spaces), ' ');
      column += spaces;
    } else {
      all.append(std::string_view(text).substr(at, bytes));
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    at += bytes;
  }
  return all.take();
}

Value split_lines(Budget& budget, const std::string& text, const Arguments& arguments) {
  const Bound given = bind("splitlines", arguments, {"keepends"});
  budget.read(text.size() * 16);
  Values all;
  for (const std::string_view line : lines_of(text, given.truth(0, false)))
    all.push_back(text_value(budget, std::string(line)));
  return sequence_value(budget, std::move(all));
}

Value split_by_method(Budget& budget, const std::string& text, const Arguments& arguments,
                      const char* name, bool from_right) {
  const Bound given = bind(name, arguments, {"sep", "maxsplit"});
  const std::int64_t most = given.whole(1, kAllTimes);
  return split(budget, text, given[0].value_or(Value(None{})), most < 0 ? kAllTimes : most,
               from_right);
}

Value replaced_by_method(Budget& budget, const std::string& text, const Arguments& arguments) {
  const Bound given = bind("replace", arguments, {"old", "new", "count"}, 2, Naming::refused);
  const std::int64_t most = given.whole(2, kAllTimes);
  return replaced(budget, text, given.text(0), given.text(1), most < 0 ? kAllTimes : most);
}

template <bool kLeft, bool kRight>
Value strip_method(Budget& budget, const std::string& text, const Arguments& arguments) {
  const Bound given = bind("strip", arguments, {"chars"}, 0, Naming::refused);
  return stripped_of(budget, text, kLeft, kRight, given[0].value_or(Value(None{})));
}

template <Case kCase>
Value case_method(Budget& budget, const std::string& text, const Arguments& arguments) {
  (void)bind("a method that changes the case", arguments, {});
  return cased_value(budget, text, kCase);
}

Value without_end(Budget& budget, const std::string& text, const Arguments& arguments,
                  bool prefix) {
  const Bound given =
      bind(prefix ? "removeprefix" : "removesuffix", arguments, {"prefix"}, 1, Naming::refused);
  const std::string& gone = given.text(0);
  const bool has = prefix ? text.starts_with(gone) : text.ends_with(gone);
  const std::size_t kept = has ? text.size() - gone.size() : text.size();
  return text_value(budget, text.substr(prefix ? text.size() - kept : 0, kept));
}

using Text_ = const std::string&;
using Given_ = const Arguments&;

const std::map<std::string, TextMethod>& text_methods() {
  static const std::map<std::string, TextMethod> all{
      {"strip", strip_method<true, true>},
      {"lstrip", strip_method<true, false>},
      {"rstrip", strip_method<false, true>},
      {"upper", case_method<Case::upper>},
      {"lower", case_method<Case::lower>},
      {"capitalize", case_method<Case::capitalize>},
      {"title", case_method<Case::title>},
      {"swapcase", case_method<Case::swap>},
      {"startswith", [](Budget& b, Text_ t, Given_ g) { return begins_or_ends(b, t, g, true); }},
      {"endswith", [](Budget& b, Text_ t, Given_ g) { return begins_or_ends(b, t, g, false); }},
      {"find",
       [](Budget& b, Text_ t, Given_ g) { return found_at(b, t, g, "find", false, false); }},
      {"rfind",
       [](Budget& b, Text_ t, Given_ g) { return found_at(b, t, g, "rfind", true, false); }},
      {"index",
       [](Budget& b, Text_ t, Given_ g) { return found_at(b, t, g, "index", false, true); }},
      {"rindex",
       [](Budget& b, Text_ t, Given_ g) { return found_at(b, t, g, "rindex", true, true); }},
      {"count", counted},
      {"partition", [](Budget& b, Text_ t, Given_ g) { return partitioned(b, t, g, false); }},
      {"rpartition", [](Budget& b, Text_ t, Given_ g) { return partitioned(b, t, g, true); }},
      {"center",
       [](Budget& b, Text_ t, Given_ g) { return padded_by(b, t, g, "center", Padding::both); }},
      {"ljust",
       [](Budget& b, Text_ t, Given_ g) { return padded_by(b, t, g, "ljust", Padding::right); }},
      {"rjust",
       [](Budget& b, Text_ t, Given_ g) { return padded_by(b, t, g, "rjust", Padding::left); }},
      {"zfill", zero_filled},
      {"expandtabs", tabs_expanded},
      {"splitlines", split_lines},
      {"split",
       [](Budget& b, Text_ t, Given_ g) { return split_by_method(b, t, g, "split", false); }},
      {"rsplit",
       [](Budget& b, Text_ t, Given_ g) { return split_by_method(b, t, g, "rsplit", true); }},
      {"replace", replaced_by_method},
      {"removeprefix", [](Budget& b, Text_ t, Given_ g) { return without_end(b, t, g, true); }},
      {"removesuffix", [](Budget& b, Text_ t, Given_ g) { return without_end(b, t, g, false); }},
      {"join", [](Budget& b, Text_ t, Given_ g) {
         return joined(b, *bind("join", g, {"iterable"}, 1, Naming::refused)[0], t, true);
       }}};
  return all;
}

}  // namespace

TextMethod text_method(const std::string& name) {
  const auto found = text_methods().find(name);
  return found == text_methods().end() ? nullptr : found->second;
}

}  // namespace tandem::exec::chat
