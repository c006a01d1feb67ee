#include "exec/tokenizer/utf8.hpp"

#include <boost/locale/utf.hpp>
#include <iterator>

namespace tandem::exec {
namespace {

namespace utf = boost::locale::utf;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_printable(utf::code_point c) {
  if (c == '\n' || c == '\t') return true;
  return c >= 0x20 && (c < 0x7f || c > 0x9f);  // neither C0, DEL nor C1
}

// Appends the characters of [at, end) to `out`, those that `keep` refuses and bytes that are no
// character as U+FFFD. Returns where it stopped: at `end`, or at a character that is not finished
// unless it is the `last`.
template <class Keep>
const char* copy(const char* at, const char* end, bool last, Keep keep, std::string& out) {
  while (at != end) {
    const char* next = at;
    const utf::code_point c = utf::utf_traits<char>::decode(next, end);
    if (c == utf::incomplete && !last) break;
    if (c == utf::incomplete || c == utf::illegal) {
      // Resume after the first byte: a character may begin within the bad sequence.
      out += kReplacement;
      ++at;
      continue;
    }
    if (keep(c)) {
      out.append(at, next);
    } else {
      out += kReplacement;
    }
    at = next;
  }
  return at;
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  copy(
      text.data(), text.data() + text.size(), true, [](utf::code_point) { return true; }, out);
  return out;
}

std::string take_printable(std::string& pending, bool last) {
  std::string out;
  const char* const begin = pending.data();
  const char* const end = copy(begin, begin + pending.size(), last, is_printable, out);
  pending.erase(0, static_cast<std::size_t>(end - begin));
  return out;
}

Utf8Character character_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return {};
  const char* next = text.data() + at;
  const utf::code_point c = utf::utf_traits<char>::decode(next, text.data() + text.size());
  if (c == utf::incomplete || c == utf::illegal) return {};
  return {.code = static_cast<std::int32_t>(c),
          .bytes = static_cast<std::size_t>(next - text.data()) - at};
}

Utf8Character character_before(std::string_view text, std::size_t at) {
  if (at == 0) return {};
  std::size_t begin = at - 1;
  while (begin > 0 && utf::utf_traits<char>::is_trail(text[begin])) --begin;
  return character_at(text.substr(0, at), begin);
}

std::string to_utf8(char32_t character) {
  std::string out;
  utf::utf_traits<char>::encode(character, std::back_inserter(out));
  return out;
}

}  // namespace tandem::exec
