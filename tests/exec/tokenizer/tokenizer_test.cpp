#include "exec/tokenizer/tokenizer.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/exec/weights/weights_support.hpp"

namespace tandem::exec::tokenizer_test {
namespace {

using testing::error_of;
using testing::has;

constexpr const char* kBad = "\xEF\xBF\xBD";

std::string replacements(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += kBad;
  return text;
}

// What the decoder prints for these bytes, one push a byte.
std::string decoded(const std::string& bytes) {
  const auto tokenizer = byte_tokenizer(256);
  StreamingDecoder decoder(*tokenizer);
  std::string out;
  for (const char c : bytes) out += decoder.push(static_cast<unsigned char>(c));
  return out + decoder.finish();
}

TEST_CASE("exec/tokenizer: bytes are ids, with the beginning-of-sequence token first") {
  CHECK(byte_tokenizer(256)->encode("a\xC3\xA9") == std::vector<std::int32_t>{97, 0xC3, 0xA9});
  CHECK(byte_tokenizer(300, 256)->encode("a") == std::vector<std::int32_t>{256, 97});
  CHECK(byte_tokenizer(300, 256)->encode("") == std::vector<std::int32_t>{256});
  CHECK(byte_tokenizer(300)->vocab() == 300);
}

TEST_CASE("exec/tokenizer: every byte comes back, ids above print their number") {
  const auto tokenizer = byte_tokenizer(300);
  for (int i = 0; i < 256; ++i) {
    CHECK(tokenizer->piece(i) == std::string(1, static_cast<char>(i)));
  }
  CHECK(tokenizer->piece(256) == "<256>");
  CHECK(tokenizer->piece(299) == "<299>");
  for (const std::int32_t id : {-1, 300, 2147483647, -2147483647}) {
    CAPTURE(id);
    CHECK(has(error_of([&] { const auto text = tokenizer->piece(id); }), "outside the vocabulary"));
  }
}

TEST_CASE("exec/tokenizer: vocabularies that are no bytes are refused") {
  CHECK(has(error_of([] { const auto t = byte_tokenizer(255); }), "at least 256"));
  CHECK(has(error_of([] { const auto t = byte_tokenizer(256, 256); }), "bos_token_id: 256"));
}

TEST_CASE("exec/tokenizer: a folder without a tokenizer's file has bytes for tokens") {
  const testing::TemporaryFolder folder;
  auto t = testing::small_llama();
  t.bos_token = 257;
  CHECK(load_tokenizer(folder.path(), t)->encode("b") == std::vector<std::int32_t>{257, 98});
  CHECK(load_tokenizer(folder.path(), t)->bos_token() == 257);
}

TEST_CASE("exec/decoder: a character comes out when its last byte is there") {
  const auto tokenizer = byte_tokenizer(300);
  StreamingDecoder decoder(*tokenizer);
  CHECK(decoder.push('a') == "a");
  CHECK(decoder.push(0xF0) == "");
  CHECK(decoder.push(0x9F) == "");
  CHECK(decoder.push(0x98) == "");
  CHECK(decoder.push(0x80) == "\xF0\x9F\x98\x80");
  CHECK(decoder.push(0xC3) == "");
  CHECK(decoder.push(299) == std::string(kBad) + "<299>");
  CHECK(decoder.finish() == "");
}

TEST_CASE("exec/decoder: what is no UTF-8 becomes U+FFFD and does not swallow what follows") {
  struct Case {
    std::string bytes;
    std::string text;
  };
  const std::string b = kBad;
  for (const Case& c : {
           Case{"\x80"
                "a",
                b + "a"},
           Case{"\xC3"
                "a",
                b + "a"},
           Case{"\xC3\xC3\xA9", b + "\xC3\xA9"},
           Case{"\xE2\x82", replacements(2)},          // unfinished at the end
           Case{"\xC0\xAF", replacements(2)},          // overlong
           Case{"\xE0\x80\x80", replacements(3)},      // overlong
           Case{"\xED\xA0\x80", replacements(3)},      // surrogate
           Case{"\xF4\x90\x80\x80", replacements(4)},  // beyond U+10FFFF
           Case{"\xFF\xFE", replacements(2)},
           Case{"\xF4\x8F\xBF\xBD", "\xF4\x8F\xBF\xBD"},
       }) {
    CAPTURE(c.bytes);
    CHECK(decoded(c.bytes) == c.text);
  }
}

TEST_CASE("exec/decoder: control characters cannot drive the terminal") {
  const std::string b = kBad;
  CHECK(decoded("a\n\tb") == "a\n\tb");
  CHECK(decoded("\x1b[2J") == b + "[2J");
  CHECK(decoded(std::string("\0\r\x7f", 3)) == replacements(3));
  CHECK(decoded("\xC2\x9B") == b);  // C1: an escape sequence in one character
  CHECK(decoded("\xC2\xA0") == "\xC2\xA0");
}

TEST_CASE("exec/decoder: any bytes come out as UTF-8 without control characters") {
  std::uint32_t state = 12345;
  std::string bytes;
  for (int i = 0; i < 20000; ++i) {
    state = state * 1664525U + 1013904223U;
    bytes += static_cast<char>(state >> 24U);
  }
  // Every character that the decoder printed survives a second decoding unchanged.
  const std::string text = decoded(bytes);
  CHECK(decoded(text) == text);
  CHECK(text.size() >= bytes.size());
}

}  // namespace
}  // namespace tandem::exec::tokenizer_test
