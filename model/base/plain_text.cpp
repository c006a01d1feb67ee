#include "model/base/plain_text.hpp"

#include <algorithm>
#include <array>
#include <boost/locale/utf.hpp>
#include <cstddef>
#include <cstdio>
#include <numeric>

namespace tandem::model {
namespace {

namespace utf = boost::locale::utf;

constexpr std::size_t kMaxNameLength = 256;

struct CodePointRange {
  utf::code_point first;
  utf::code_point last;
};

// Unicode 15: categories Cc, Cf, Zl and Zp, and those of Lo and Mn that show nothing
// (Default_Ignorable_Code_Point), but for the variation selectors and joiners' effects in scripts.
constexpr std::array<CodePointRange, 24> kUnseen{{
    {0x0000, 0x001F},    // C0
    {0x007F, 0x009F},    // DEL, C1
    {0x00AD, 0x00AD},    // soft hyphen
    {0x034F, 0x034F},    // combining grapheme joiner
    {0x0600, 0x0605},    // Arabic number signs
    {0x061C, 0x061C},    // Arabic letter mark
    {0x06DD, 0x06DD},    // Arabic end of ayah
    {0x070F, 0x070F},    // Syriac abbreviation
    {0x115F, 0x1160},    // Hangul fillers
    {0x17B4, 0x17B5},    // Khmer inherent vowels
    {0x180B, 0x180F},    // Mongolian selectors
    {0x200B, 0x200F},    // zero-width, direction marks
    {0x2028, 0x202E},    // separators, direction overrides
    {0x2060, 0x206F},    // word joiner, isolates
    {0x3164, 0x3164},    // Hangul filler
    {0xFE00, 0xFE0F},    // variation selectors
    {0xFEFF, 0xFEFF},    // byte order mark
    {0xFFA0, 0xFFA0},    // Hangul filler
    {0xFFF0, 0xFFFB},    // annotations
    {0xFFFE, 0xFFFF},    // no characters
    {0x110BD, 0x110CD},  // Kaithi number signs
    {0x1BCA0, 0x1BCA3},  // shorthand
    {0x1D173, 0x1D17A},  // music
    {0xE0000, 0xE0FFF},  // tags
}};

bool is_unseen(utf::code_point c) {
  for (const CodePointRange& span : kUnseen) {
    if (c >= span.first && c <= span.last) return true;
  }
  return false;
}

bool is_valid(utf::code_point c) { return c != utf::illegal && c != utf::incomplete; }

// Calls use(character or illegal, its bytes) until it says false.
template <class Use>
void for_characters(std::string_view text, const Use& use) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    const char* next = at;
    const utf::code_point c = utf::utf_traits<char>::decode(next, end);
    if (!is_valid(c)) next = at + 1;  // a character may begin within the bad sequence
    if (!use(is_valid(c) ? c : utf::illegal,
             std::string_view(at, static_cast<std::size_t>(next - at)))) {
      return;
    }
    at = next;
  }
}

}  // namespace

std::string fault_of_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameLength) {
    return std::to_string(name.size()) + " bytes, expected 1 to " + std::to_string(kMaxNameLength);
  }
  return fault_of_text(name);
}

std::string fault_of_text(std::string_view text) {
  std::string fault;
  for_characters(text, [&](utf::code_point c, std::string_view bytes) {
    std::array<char, 16> code{};
    if (c == utf::illegal) {
      (void)std::snprintf(code.data(), code.size(), "0x%02X",
                          static_cast<unsigned>(static_cast<unsigned char>(bytes[0])));
      fault = "byte " + std::string(code.data()) + ", expected UTF-8";
    } else if (is_unseen(c)) {
      (void)std::snprintf(code.data(), code.size(), "U+%04X", static_cast<unsigned>(c));
      fault = "character " + std::string(code.data()) + ", expected characters that are shown";
    }
    return fault.empty();
  });
  return fault;
}

std::string one_line(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  for_characters(text, [&](utf::code_point c, std::string_view bytes) {
    if (c == utf::illegal) {
      line += "\xEF\xBF\xBD";
    } else if (is_unseen(c)) {
      line += ' ';
    } else {
      line += bytes;
    }
    return true;
  });
  return line;
}

std::string one_line(std::string_view text, std::size_t most) {
  return text.size() <= most ? one_line(text) : one_line(text.substr(0, most)) + "...";
}

std::string printable(std::string_view text, std::size_t most) {
  std::string out(text.substr(0, most));
  std::ranges::replace_if(
      out, [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos)
    return std::string(text);
  std::string word = "'";
  for (const char character : text) word += character == '\'' ? "'\\''" : std::string(1, character);
  return word + "'";
}

std::size_t not_utf8(std::string_view text) {
  std::size_t found = std::string_view::npos;
  for_characters(text, [&](utf::code_point c, std::string_view bytes) {
    if (c == utf::illegal) found = static_cast<std::size_t>(bytes.data() - text.data());
    return c != utf::illegal;
  });
  return found;
}

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& known) {
  constexpr std::size_t kTelling = 3;
  const auto begins = [&](std::string_view candidate) { return candidate.starts_with(word); };
  if (word.size() >= kTelling && std::ranges::count_if(known, begins) == 1)
    return *std::ranges::find_if(known, begins);
  std::string_view best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    std::vector<std::size_t> previous(candidate.size() + 1);
    std::iota(previous.begin(), previous.end(), std::size_t{0});
    for (std::size_t i = 0; i < word.size(); ++i) {
      std::vector<std::size_t> row{i + 1};
      for (std::size_t j = 0; j < candidate.size(); ++j)
        row.push_back(std::min(
            {row[j] + 1, previous[j + 1] + 1, previous[j] + (word[i] == candidate[j] ? 0 : 1)}));
      previous = std::move(row);
    }
    if (previous.back() < least && previous.back() < candidate.size()) {
      least = previous.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace tandem::model
