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

Value found_at(const TextCall& call) {
  const auto& [budget, name, text, arguments] = call;
  const Bound given = call.bound({"sub", "start", "end"}, 1, Naming::refused);
  const std::string& sub = given.text(0);
  const TextPart part = part_of(budget, text, given, 1);
  const bool last = name.starts_with('r');
  std::size_t at = std::string::npos;
  if (part.exists)
    at = last ? find_last(budget, part.text, sub) : find_first(budget, part.text, sub);
  if (at == std::string::npos) {
    if (name.ends_with("index")) fail("'" + name + "': the text is not found, expected it");
    return Value(std::int64_t{-1});
  }
  budget.read(at);
  return Value(part.begin + static_cast<std::int64_t>(length_of(part.text.substr(0, at))));
}

Value counted(const TextCall& call) {
  const auto& [budget, name, text, arguments] = call;
  const Bound given = call.bound({"sub", "start", "end"}, 1, Naming::refused);
  const std::string& sub = given.text(0);
  const TextPart part = part_of(budget, text, given, 1);
  budget.read(text.size());
  if (!part.exists) return Value(std::int64_t{0});
  if (sub.empty()) return Value(static_cast<std::int64_t>(length_of(part.text)) + 1);
  std::int64_t count = 0;
  for (std::size_t at = find_first(budget, part.text, sub); at != std::string::npos;
       at = find_first(budget, part.text, sub, at + sub.size()))
    ++count;
  return Value(count);
}

Value begins_or_ends(const TextCall& call) {
  const Bound given = call.bound({"prefix", "start", "end"}, 1, Naming::refused);
  const TextPart part = part_of(call.budget, call.text, given, 1);
  const auto stands_there = [&](const Value& what) {
    if (!what.is_text())
      fail(call.name + " of " + kind_of(what) + ", expected a text or a tuple of texts");
    call.budget.read(what.text().size());
    return part.exists && (call.name == "startswith" ? part.text.starts_with(what.text())
                                                     : part.text.ends_with(what.text()));
  };
  const Sequence* const tuple = given[0]->sequence();
  if (tuple == nullptr || tuple->form != Sequence::Form::tuple)
    return Value(stands_there(*given[0]));
  return Value(std::ranges::any_of(tuple->items, stands_there));
}

Value partitioned(const TextCall& call) {
  const auto& [budget, name, text, arguments] = call;
  const bool last = name == "rpartition";
  const Bound given = call.bound({"sep"}, 1, Naming::refused);
  const std::string& sign = given.text(0);
  if (sign.empty()) fail("partition by an empty text, expected some characters");
  const std::size_t at = last ? find_last(budget, text, sign) : find_first(budget, text, sign);
  const bool found = at != std::string::npos;
  const auto made = [&](std::string part) { return text_value(call.budget, std::move(part)); };
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

template <Padding kWhere>
Value padded_by(const TextCall& call) {
  const Bound given = call.bound({"width", "fillchar"}, 1, Naming::refused);
  const std::string fill = given.has(1) ? given.text(1) : " ";
  if (length_of(fill) != 1) fail("'" + call.name + "': expected one character to fill with");
  return padded(call.budget, call.text, given.whole(0, 0), fill, kWhere);
}

Value zero_filled(const TextCall& call) {
  const auto& [budget, name, text, arguments] = call;
  const Bound given = call.bound({"width"}, 1, Naming::refused);
  const bool has_sign = text.starts_with('+') || text.starts_with('-');
  const std::string sign = has_sign ? text.substr(0, 1) : "";
  const Value rest =
      padded(budget, text.substr(sign.size()),
             given.whole(0, 0) - static_cast<std::int64_t>(sign.size()), "0", Padding::left);
  return text_value(budget, sign + rest.text());
}

Value tabs_expanded(const TextCall& call) {
  const auto& [budget, name, text, arguments] = call;
  const std::int64_t width = call.bound({"tabsize"}).whole(0, 8);
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

Value split_lines(const TextCall& call) {
  const auto& [budget, name, text, arguments] = call;
  const Bound given = call.bound({"keepends"});
  budget.read(text.size() * 16);
  Values all;
  for (const std::string_view line : lines_of(text, given.truth(0, false)))
    all.push_back(text_value(budget, std::string(line)));
  return sequence_value(budget, std::move(all));
}

Value split_by_method(const TextCall& call) {
  const Bound given = call.bound({"sep", "maxsplit"});
  const std::int64_t most = std::max(kAllTimes, given.whole(1, kAllTimes));
  return split(call.budget, call.text, given[0].value_or(Value(None{})), most,
               call.name == "rsplit");
}

Value replaced_by_method(const TextCall& call) {
  const Bound given = call.bound({"old", "new", "count"}, 2, Naming::refused);
  const std::int64_t most = std::max(kAllTimes, given.whole(2, kAllTimes));
  return replaced(call.budget, call.text, given.text(0), given.text(1), most);
}

Value strip_method(const TextCall& call) {
  const Bound given = call.bound({"chars"}, 0, Naming::refused);
  return stripped_of(call.budget, call.text, call.name != "rstrip", call.name != "lstrip",
                     given[0].value_or(Value(None{})));
}

template <Case kCase>
Value case_method(const TextCall& call) {
  (void)call.bound({});
  return cased_value(call.budget, call.text, kCase);
}

Value without_end(const TextCall& call) {
  const auto& [budget, name, text, arguments] = call;
  const bool prefix = name == "removeprefix";
  const Bound given = call.bound({"prefix"}, 1, Naming::refused);
  const std::string& gone = given.text(0);
  const bool has = prefix ? text.starts_with(gone) : text.ends_with(gone);
  const std::size_t kept = has ? text.size() - gone.size() : text.size();
  return text_value(budget, text.substr(prefix ? text.size() - kept : 0, kept));
}

Value joined_by(const TextCall& call) {
  return joined(call.budget, *call.bound({"iterable"}, 1, Naming::refused)[0], call.text, true);
}

const std::map<std::string, TextMethod>& text_methods() {
  static const std::map<std::string, TextMethod> all{{"capitalize", case_method<Case::capitalize>},
                                                     {"center", padded_by<Padding::both>},
                                                     {"count", counted},
                                                     {"endswith", begins_or_ends},
                                                     {"expandtabs", tabs_expanded},
                                                     {"find", found_at},
                                                     {"index", found_at},
                                                     {"join", joined_by},
                                                     {"ljust", padded_by<Padding::right>},
                                                     {"lower", case_method<Case::lower>},
                                                     {"lstrip", strip_method},
                                                     {"partition", partitioned},
                                                     {"removeprefix", without_end},
                                                     {"removesuffix", without_end},
                                                     {"replace", replaced_by_method},
                                                     {"rfind", found_at},
                                                     {"rindex", found_at},
                                                     {"rjust", padded_by<Padding::left>},
                                                     {"rpartition", partitioned},
                                                     {"rsplit", split_by_method},
                                                     {"rstrip", strip_method},
                                                     {"split", split_by_method},
                                                     {"splitlines", split_lines},
                                                     {"startswith", begins_or_ends},
                                                     {"strip", strip_method},
                                                     {"swapcase", case_method<Case::swap>},
                                                     {"title", case_method<Case::title>},
                                                     {"upper", case_method<Case::upper>},
                                                     {"zfill", zero_filled}};
  return all;
}

}  // namespace

TextMethod text_method(const std::string& name) {
  const auto found = text_methods().find(name);
  return found == text_methods().end() ? nullptr : found->second;
}

}  // namespace tandem::exec::chat
