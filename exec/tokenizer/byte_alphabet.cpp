#include "exec/tokenizer/byte_alphabet.hpp"

#include <array>

#include "exec/tokenizer/utf8.hpp"

namespace tandem::exec {
namespace {

constexpr char32_t kFirstStandIn = 0x100;

// Control characters, space, no-break space and soft hyphen could not be seen in a file.
constexpr bool is_visible(unsigned byte) {
  return (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
}

constexpr std::array<char32_t, 256> kLetters = [] {
  std::array<char32_t, 256> letters{};
  char32_t stand_in = kFirstStandIn;
  for (unsigned byte = 0; byte < letters.size(); ++byte) {
    letters[byte] = is_visible(byte) ? byte : stand_in++;
  }
  return letters;
}();

// -1: the letter stands for no byte. The stand-ins end below U+0144.
constexpr std::array<int, 0x144> kByteOfCode = [] {
  std::array<int, 0x144> bytes{};
  bytes.fill(-1);
  for (unsigned byte = 0; byte < kLetters.size(); ++byte) {
    bytes[kLetters[byte]] = static_cast<int>(byte);
  }
  return bytes;
}();

}  // namespace

char32_t letter_of(unsigned char byte) { return kLetters[byte]; }

bool may_lack_token(unsigned char byte) {
  constexpr unsigned kFirstOfPlane4 = 0xF1;
  if (byte == '\t' || byte == '\n' || byte == '\r') return false;
  return byte < 0x20 || byte == 0x7F || byte == 0xC0 || byte == 0xC1 || byte >= kFirstOfPlane4;
}

std::optional<std::string> bytes_of_letters(std::string_view token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const Utf8Character c = character_at(token, at);
    if (c.code < 0 || static_cast<std::size_t>(c.code) >= kByteOfCode.size()) return std::nullopt;
    const int byte = kByteOfCode.at(static_cast<std::size_t>(c.code));
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    at += c.bytes;
  }
  return bytes;
}

}  // namespace tandem::exec
