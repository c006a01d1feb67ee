#include "exec/tokenizer/chat/characters.hpp"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "exec/tokenizer/utf8.hpp"

namespace tandem::exec::chat {
namespace {

constexpr std::int32_t kSigma = 0x3a3;

bool is_upper(std::int32_t code) { return u_hasBinaryProperty(code, UCHAR_UPPERCASE) != 0; }
bool is_lower(std::int32_t code) { return u_hasBinaryProperty(code, UCHAR_LOWERCASE) != 0; }
bool is_title(std::int32_t code) { return u_charType(code) == U_TITLECASE_LETTER; }
bool is_cased(std::int32_t code) { return is_upper(code) || is_lower(code) || is_title(code); }
int numeric_type(std::int32_t code) { return u_getIntPropertyValue(code, UCHAR_NUMERIC_TYPE); }
bool is_alpha(std::int32_t code) { return (U_MASK(u_charType(code)) & U_GC_L_MASK) != 0; }

std::string to_utf8_text(const icu::UnicodeString& letters) {
  std::string made;
  letters.toUTF8String(made);
  return made;
}

icu::UnicodeString from_utf8(std::string_view text) {
  return icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())));
}

std::string upper(std::string_view text) {
  return to_utf8_text(from_utf8(text).toUpper(icu::Locale::getRoot()));
}

std::string lower(std::string_view text) {
  return to_utf8_text(from_utf8(text).toLower(icu::Locale::getRoot()));
}

std::string title_of(std::string_view character) {
  return to_utf8_text(from_utf8(character).toTitle(nullptr, icu::Locale::getRoot(),
                                                   U_TITLECASE_NO_BREAK_ADJUSTMENT));
}

// A capital sigma at byte `at` ends a word (SpecialCasing.txt, Final_Sigma).
bool is_final_sigma(std::string_view text, std::size_t at) {
  const auto ignorable = [](std::int32_t code) {
    return u_hasBinaryProperty(code, UCHAR_CASE_IGNORABLE) != 0;
  };
  const auto cased_letter = [](std::int32_t code) {
    return u_hasBinaryProperty(code, UCHAR_CASED) != 0;
  };
  Utf8Character before = character_before(text, at);
  for (std::size_t end = at; before.code >= 0 && ignorable(before.code);) {
    end -= before.bytes;
    before = character_before(text, end);
  }
  if (before.code < 0 || !cased_letter(before.code)) return false;
  std::size_t next = at + character_at(text, at).bytes;
  Utf8Character after = character_at(text, next);
  while (after.code >= 0 && ignorable(after.code)) {
    next += after.bytes;
    after = character_at(text, next);
  }
  return after.code < 0 || !cased_letter(after.code);
}

std::string lower_at(std::string_view text, std::size_t at, const Utf8Character& one) {
  if (one.code == kSigma) return is_final_sigma(text, at) ? "\u03c2" : "\u03c3";
  return lower(text.substr(at, one.bytes));
}

// Each letter in title case where it begins a word, else in lower case; or in the other case.
std::string by_letters(std::string_view text, bool swap) {
  std::string all;
  bool behind_letter = false;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character one = character_at(text, at);
    const std::string_view character = text.substr(at, one.bytes);
    if (swap) {
      all += is_upper(one.code)   ? lower_at(text, at, one)
             : is_lower(one.code) ? upper(character)
                                  : std::string(character);
    } else {
      all += behind_letter ? lower_at(text, at, one) : title_of(character);
      behind_letter = is_cased(one.code);
    }
    at += one.bytes;
  }
  return all;
}

template <class Test>
bool all_of_characters(std::string_view text, const Test& test) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character one = character_at(text, at);
    if (!test(one.code)) return false;
    at += one.bytes;
  }
  return true;
}

template <class Test>
auto every(Test test) {
  return [test](std::string_view text) { return !text.empty() && all_of_characters(text, test); };
}

// Some letters of one case and none of another.
bool has_only(std::string_view text, bool wants_upper) {
  bool any = false;
  const bool none_other = all_of_characters(text, [&](std::int32_t code) {
    const bool wanted = wants_upper ? is_upper(code) : is_lower(code);
    any = any || wanted;
    return wanted || !is_cased(code);
  });
  return any && none_other;
}

bool is_titled(std::string_view text) {
  bool any = false;
  bool behind_letter = false;
  const bool so = all_of_characters(text, [&](std::int32_t code) {
    const bool begins = is_upper(code) || is_title(code);
    const bool fits = begins ? !behind_letter : !is_lower(code) || behind_letter;
    behind_letter = begins || is_lower(code);
    any = any || behind_letter;
    return fits;
  });
  return so && any;
}

using CharacterTest = std::function<bool(std::string_view)>;

const std::map<std::string_view, CharacterTest>& character_tests() {
  static const std::map<std::string_view, CharacterTest> all{
      {"isupper", [](std::string_view text) { return has_only(text, true); }},
      {"islower", [](std::string_view text) { return has_only(text, false); }},
      {"istitle", is_titled},
      {"isspace", every(is_space)},
      {"isalpha", every(is_alpha)},
      {"isdecimal", every([](std::int32_t c) { return numeric_type(c) == U_NT_DECIMAL; })},
      {"isdigit", every([](std::int32_t c) {
         return numeric_type(c) == U_NT_DECIMAL || numeric_type(c) == U_NT_DIGIT;
       })},
      {"isnumeric", every([](std::int32_t c) { return numeric_type(c) != U_NT_NONE; })},
      {"isalnum",
       every([](std::int32_t c) { return is_alpha(c) || numeric_type(c) != U_NT_NONE; })},
      {"isascii",
       [](std::string_view text) {
         return all_of_characters(text, [](std::int32_t c) { return c < 0x80; });
       }},
      {"isprintable", [](std::string_view text) { return all_of_characters(text, is_printable); }},
      {"isidentifier", [](std::string_view text) {
         return !text.empty() && begins_name(character_at(text, 0).code) &&
                all_of_characters(text, continues_name);
       }}};
  return all;
}

}  // namespace

bool is_space(std::int32_t code) {
  constexpr std::array<std::int32_t, 13> kOthers{
      0x1c, 0x1d, 0x1e, 0x1f, 0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0x20};
  return (code >= 0x9 && code <= 0xd) || (code >= 0x2000 && code <= 0x200a) ||
         std::ranges::find(kOthers, code) != kOthers.end();
}

std::string_view stripped(std::string_view text, bool left, bool right) {
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
  return text;
}

std::size_t length_of(std::string_view text) {
  // Bytes that begin a character.
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::size_t byte_of(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xc0U) != 0x80U;
    if (begins && index-- == 0) break;
  }
  return at;
}

std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends) {
  const auto ends_line = [](std::int32_t code) {
    return (code >= 0xa && code <= 0xd) || (code >= 0x1c && code <= 0x1e) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
  };
  std::vector<std::string_view> all;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character one = character_at(text, at);
    const std::size_t end = at;
    at += one.bytes;
    if (!ends_line(one.code)) continue;
    if (one.code == '\r' && at < text.size() && text[at] == '\n') ++at;
    all.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) all.push_back(text.substr(begin));
  return all;
}

std::string cased(std::string_view text, Case wanted) {
  if (wanted == Case::upper) return upper(text);
  if (wanted == Case::lower) return lower(text);
  if (wanted == Case::title || wanted == Case::swap) return by_letters(text, wanted == Case::swap);
  if (text.empty()) return "";
  const std::string_view first = text.substr(0, character_at(text, 0).bytes);
  // Lowers the whole text, as preceding letters may affect a letter's form.
  return title_of(first) + lower(text).substr(lower(first).size());
}

bool passes(std::string_view method, std::string_view text) {
  return character_tests().at(method)(text);
}

bool is_character_test(std::string_view method) { return character_tests().contains(method); }

bool is_printable(std::int32_t code) {
  constexpr std::uint32_t kHidden = U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CS_MASK | U_GC_CO_MASK |
                                    U_GC_CN_MASK | U_GC_ZL_MASK | U_GC_ZP_MASK | U_GC_ZS_MASK;
  return code == ' ' || (U_MASK(u_charType(code)) & kHidden) == 0;
}

int decimal_digit(std::int32_t code) {
  return numeric_type(code) == U_NT_DECIMAL ? u_charDigitValue(code) : -1;
}

bool begins_name(std::int32_t code) {
  return code == '_' || u_hasBinaryProperty(code, UCHAR_XID_START) != 0;
}

bool continues_name(std::int32_t code) {
  return u_hasBinaryProperty(code, UCHAR_XID_CONTINUE) != 0;
}

}  // namespace tandem::exec::chat
