#include "exec/tokenizer/chat/text_functions.hpp"

#include <algorithm>

#include "exec/tokenizer/chat/elements.hpp"
#include "exec/tokenizer/chat/find_text.hpp"
#include "exec/tokenizer/chat/python_text.hpp"
#include "exec/tokenizer/utf8.hpp"

namespace tandem::exec::chat {
namespace {

// Changes of case and searches for white space look at each character several times.
constexpr std::size_t kSlowCharacter = 16;

// `with` before each character and behind the last one.
Value interspersed(Budget& budget, const std::string& text, const std::string& with,
                   std::int64_t most) {
  TextBuilder all(budget);
  std::size_t at = 0;
  for (; most != 0; --most) {
    all.append(with);
    if (at >= text.size()) return all.take();
    const std::size_t bytes = character_at(text, at).bytes;
    all.append(std::string_view(text).substr(at, bytes));
    at += bytes;
  }
  all.append(std::string_view(text).substr(at));
  return all.take();
}

Values split_by_space(Budget& budget, std::string_view rest, std::int64_t most, bool from_right) {
  Values parts;
  while (!(rest = stripped(rest, !from_right, from_right)).empty()) {
    std::size_t size = 0;  // of the word at that end
    while (size < rest.size()) {
      const Utf8Character next =
          from_right ? character_before(rest, rest.size() - size) : character_at(rest, size);
      if (is_space(next.code)) break;
      size += next.bytes;
    }
    if (most-- == 0) size = rest.size();
    const std::size_t begin = from_right ? rest.size() - size : 0;
    parts.push_back(text_value(budget, std::string(rest.substr(begin, size))));
    rest = from_right ? rest.substr(0, begin) : rest.substr(size);
  }
  if (from_right) std::ranges::reverse(parts);
  return parts;
}

Values split_by_text(Budget& budget, std::string_view text, std::string_view sign,
                     std::int64_t most, bool from_right) {
  // From the right it searches both reversed.
  std::string turned_text;
  std::string turned_sign;
  if (from_right) {
    budget.make(text.size() + sign.size());
    text = turned_text.assign(text.rbegin(), text.rend());
    sign = turned_sign.assign(sign.rbegin(), sign.rend());
  }
  Values parts;
  std::size_t at = 0;
  for (std::size_t found = 0; found != std::string::npos; at = found + sign.size()) {
    found = most-- == 0 ? std::string::npos : find_first(budget, text, sign, at);
    std::string part(text.substr(at, found - at));
    if (from_right) std::ranges::reverse(part);
    parts.push_back(text_value(budget, std::move(part)));
  }
  if (from_right) std::ranges::reverse(parts);
  return parts;
}

}  // namespace

Value replaced(Budget& budget, const std::string& text, const std::string& old,
               const std::string& with, std::int64_t most) {
  if (old.empty()) return interspersed(budget, text, with, most);
  TextBuilder all(budget);
  std::size_t at = 0;
  for (; most != 0; --most) {
    const std::size_t found = find_first(budget, text, old, at);
    if (found == std::string::npos) break;
    all.append(std::string_view(text).substr(at, found - at));
    all.append(with);
    at = found + old.size();
  }
  all.append(std::string_view(text).substr(at));
  return all.take();
}

Value split(Budget& budget, const std::string& text, const Value& separator, std::int64_t most,
            bool from_right) {
  if (separator.is_undefined() || separator.is_none()) {
    budget.read(text.size() * kSlowCharacter);
    return sequence_value(budget, split_by_space(budget, text, most, from_right));
  }
  if (!separator.is_text()) fail("split by " + kind_of(separator) + ", expected a text");
  if (separator.text().empty()) fail("split by an empty text, expected some characters");
  return sequence_value(budget, split_by_text(budget, text, separator.text(), most, from_right));
}

Value stripped_of(Budget& budget, const std::string& text, bool left, bool right,
                  const Value& which) {
  budget.read(text.size() * kSlowCharacter);
  if (which.is_undefined() || which.is_none())
    return text_value(budget, std::string(stripped(text, left, right)));
  if (!which.is_text()) fail("strip of " + kind_of(which) + ", expected a text");
  budget.make(which.text().size() * kSlowCharacter);
  std::vector<std::int32_t> gone;
  for (std::size_t at = 0; at < which.text().size();) {
    const Utf8Character one = character_at(which.text(), at);
    gone.push_back(one.code);
    at += one.bytes;
  }
  std::ranges::sort(gone);
  const auto is_gone = [&](const Utf8Character& one) {
    return one.code >= 0 && std::ranges::binary_search(gone, one.code);
  };
  std::string_view kept = text;
  for (Utf8Character one; left && is_gone(one = character_at(kept, 0));)
    kept.remove_prefix(one.bytes);
  for (Utf8Character one; right && is_gone(one = character_before(kept, kept.size()));)
    kept.remove_suffix(one.bytes);
  return text_value(budget, std::string(kept));
}

Value joined(Budget& budget, const Value& parts, const std::string& between, bool strict) {
  TextBuilder all(budget);
  const Next next = iterate(budget, parts, "join");
  bool first = true;
  while (const std::optional<Value> part = next()) {
    if (!first) all.append(between);
    first = false;
    if (part->is_text()) {
      all.append(part->text());
    } else if (strict) {
      fail("join of " + kind_of(*part) + ", expected texts");
    } else {
      all.append(to_text(budget, *part));
    }
  }
  return all.take();
}

Value cased_value(Budget& budget, const std::string& text, Case wanted) {
  budget.read(text.size() * kSlowCharacter);
  return text_value(budget, cased(text, wanted));
}

Value padded(Budget& budget, const std::string& text, std::int64_t width, std::string_view fill,
             Padding where) {
  const auto length = static_cast<std::int64_t>(length_of(text));
  budget.read(text.size());
  const std::int64_t missing = std::max<std::int64_t>(0, width - length);
  // Places an odd space as Python does.
  const std::int64_t left = where == Padding::left    ? missing
                            : where == Padding::right ? 0
                                                      : missing / 2 + (missing & width & 1);
  Budget::expect_text(static_cast<std::size_t>(missing));
  TextBuilder all(budget);
  for (std::int64_t i = 0; i < left; ++i) all.append(fill);
  all.append(text);
  for (std::int64_t i = left; i < missing; ++i) all.append(fill);
  return all.take();
}

}  // namespace tandem::exec::chat
