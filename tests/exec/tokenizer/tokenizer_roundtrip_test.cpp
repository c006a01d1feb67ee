// Laws: text comes back, merging is what its definition says, and long texts take no square time.

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/tokenizer/byte_alphabet.hpp"
#include "exec/tokenizer/byte_pairs.hpp"
#include "exec/tokenizer/split_pattern.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "exec/tokenizer/unicode_form.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::exec::tokenizer_roundtrip_test {
namespace {

using Ids = std::vector<std::int32_t>;

std::unique_ptr<Tokenizer> load(const std::string& name) {
  const auto folder = testing::in_sources("tests/tokenizers") / name;
  auto transformer = testing::small_llama();
  transformer.vocab = 4096;
  return load_tokenizer(folder, transformer);
}

// Characters of all planes, half of them of one plane's beginning, with runs and lines.
std::string random_text(std::mt19937_64& random, std::size_t characters) {
  std::string text;
  for (std::size_t i = 0; i < characters; ++i) {
    constexpr std::uint64_t kLimits[] = {0x80, 0x250, 0x3000, 0x10000, 0x20000, 0x110000};
    auto c = static_cast<char32_t>(random() % kLimits[random() % std::size(kLimits)]);
    // No surrogates, and not what SentencePiece writes for a space.
    if ((c >= 0xD800 && c < 0xE000) || c == 0x2581) c = U' ';
    for (std::uint64_t n = random() % 16 == 0 ? 5 : 1; n > 0; --n) text += to_utf8(c);
  }
  return text;
}

TEST_CASE("exec/tokenizers: random Unicode of all planes comes back") {
  std::mt19937_64 random(20261121);
  for (const char* name : {"sp-bpe", "bpe-gpt2", "bpe-llama3", "bpe-steps"}) {
    CAPTURE(name);
    const auto tokenizer = load(name);
    for (std::size_t size : {1U, 2U, 3U, 7U, 61U, 997U, 20011U}) {
      for (int i = 0; i < 5; ++i) {
        const std::string text = random_text(random, size);
        CHECK(decode(*tokenizer, tokenizer->encode(text)) == text);
      }
    }
  }
}

TEST_CASE("exec/tokenizers: what normalisation or a first space changes, it changes once") {
  std::mt19937_64 random(7);
  const auto composed = load("bpe-qwen2");
  const auto prefixed = load("bpe-prefix");
  const auto pieces = load("sp-unigram-bytes");
  for (int i = 0; i < 50; ++i) {
    const std::string text = random_text(random, 200);
    CHECK(decode(*composed, composed->encode(text)) == normalized(text, UnicodeForm::nfc));
    CHECK(decode(*prefixed, prefixed->encode("x" + text)) == " x" + text);
    const std::string once = decode(*pieces, pieces->encode(text));
    CHECK(decode(*pieces, pieces->encode(once)) == once);
  }
}

TEST_CASE("exec/tokenizers: one tokenizer encodes in several threads") {
  const auto tokenizer = load("bpe-llama3");
  std::mt19937_64 random(3);
  const std::string text = random_text(random, 5000);
  const Ids expected = tokenizer->encode(text);
  std::vector<Ids> found(4);
  {
    std::vector<std::jthread> threads;
    for (Ids& ids : found) threads.emplace_back([&] { ids = tokenizer->encode(text); });
  }
  for (const Ids& ids : found) CHECK(ids == expected);
}

TEST_CASE("exec/byte alphabet: every byte has a letter, the printable ones their own") {
  for (unsigned byte = 0; byte < 256; ++byte) {
    CHECK(bytes_of_letters(to_utf8(letter_of(static_cast<unsigned char>(byte)))) ==
          std::string(1, static_cast<char>(byte)));
  }
  CHECK(letter_of('a') == U'a');
  CHECK(letter_of(' ') == U'\u0120');
  CHECK(letter_of('\n') == U'\u010A');
  CHECK(letter_of(0xAD) == U'\u0143');
  CHECK(bytes_of_letters("\xC4\xA0"
                         "the") == " the");
  CHECK_FALSE(bytes_of_letters("a b").has_value());
  CHECK_FALSE(bytes_of_letters("\xE6\x97\xA5").has_value());
}

// By definition: the leftmost pair of the lowest rank becomes one token, again and again.
Ids merged_slowly(std::string_view word,
                  const std::map<std::pair<std::int32_t, std::int32_t>,
                                 std::pair<std::uint32_t, std::int32_t>>& merges) {
  Ids ids;
  for (const char c : word) ids.push_back(static_cast<unsigned char>(c));
  for (;;) {
    std::size_t best = ids.size();
    std::uint32_t best_rank = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto merge = merges.find({ids[i], ids[i + 1]});
      if (merge == merges.end()) continue;
      if (best < ids.size() && merge->second.first >= best_rank) continue;
      best = i;
      best_rank = merge->second.first;
    }
    if (best == ids.size()) return ids;
    ids[best] = merges.at({ids[best], ids[best + 1]}).second;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST_CASE("exec/byte pairs: equal the definition, for merges in any order") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    // Few letters and random ranks: overlaps and merges of merges are frequent.
    const std::uint64_t letters = 1 + random() % 3;
    BytePairs pairs;
    std::map<std::pair<std::int32_t, std::int32_t>, std::pair<std::uint32_t, std::int32_t>> merges;
    for (unsigned byte = 0; byte < 256; ++byte) {
      pairs.set_byte(static_cast<unsigned char>(byte), static_cast<std::int32_t>(byte));
    }
    Ids tokens;
    for (std::uint64_t i = 0; i < letters; ++i)
      tokens.push_back(static_cast<std::int32_t>('a' + i));
    for (std::int32_t id = 256; id < 270; ++id) {
      const std::int32_t left = tokens[random() % tokens.size()];
      const std::int32_t right = tokens[random() % tokens.size()];
      const auto rank = static_cast<std::uint32_t>(random() % 20);
      pairs.add_merge(left, right, id, rank);
      merges[{left, right}] = {rank, id};
      tokens.push_back(id);
    }
    for (const std::size_t size : {0U, 1U, 2U, 5U, 13U, 64U}) {
      std::string word;
      while (word.size() < size) word += static_cast<char>('a' + random() % letters);
      Ids ids;
      pairs.encode(word, -1, ids);
      CHECK(ids == merged_slowly(word, merges));
    }
  }
}

TEST_CASE("exec/byte pairs: a word of a million bytes") {
  BytePairs pairs;
  for (unsigned byte = 0; byte < 256; ++byte) {
    pairs.set_byte(static_cast<unsigned char>(byte), static_cast<std::int32_t>(byte));
  }
  for (std::int32_t i = 0; i < 16; ++i) {
    const std::int32_t part = i == 0 ? 'a' : 255 + i;
    pairs.add_merge(part, part, 256 + i, static_cast<std::uint32_t>(i));
  }
  Ids ids;
  pairs.encode(std::string(std::size_t{1} << 20U, 'a'), -1, ids);
  CHECK(ids == Ids(16, 271));  // 2^20 bytes in tokens of 2^16
}

// Llama 3's pattern goes over all the white space to its end, and back in search of a line's end.
TEST_CASE("exec/split pattern: 3 MiB of white space are two words") {
  const SplitPattern split(R"(\p{L}+|\s*[\r\n]+|\s+(?!\S)|\s+)", false, SplitPattern::Gaps::keep,
                           "test");
  const std::size_t spaces = std::size_t{3} << 20U;
  const std::string text = std::string(spaces, ' ') + "x";
  const auto parts = split.split({{text}});
  REQUIRE(parts.size() == 3);
  CHECK(parts[0].size() == spaces - 1);
  CHECK(parts[1] == " ");
  CHECK(parts[2] == "x");
}

TEST_CASE("exec/split pattern: matches and gaps, white space as Unicode has it") {
  const auto cut = [](const char* pattern, bool literal, SplitPattern::Gaps gaps,
                      std::string_view text) {
    std::string out;
    const SplitPattern split(pattern, literal, gaps, "test");
    for (const std::string_view part : split.split({{text}})) out.append(part).append("|");
    return out;
  };
  using Gaps = SplitPattern::Gaps;
  CHECK(cut("[0-9]+", false, Gaps::keep, "a12b3") == "a|12|b|3|");
  CHECK(cut("[0-9]+", false, Gaps::drop, "a12b3") == "12|3|");
  CHECK(cut("a.c", true, Gaps::keep, "abca.c") == "abc|a.c|");
  CHECK(cut("x", false, Gaps::keep, "") == "");
  CHECK(cut(R"(\p{Lu}\p{Ll}+)", false, Gaps::keep, "\xC3\x89t\xC3\xA9\xC3\x8Fle") ==
        "\xC3\x89t\xC3\xA9|\xC3\x8Fle|");
  // U+3000 is white space, U+180E and U+200B are not.
  CHECK(cut(R"(\s)", false, Gaps::drop, "\xE3\x80\x80\xE1\xA0\x8E\xE2\x80\x8B") == "\xE3\x80\x80|");
  CHECK(cut(R"([^\s]+)", false, Gaps::drop, "\xE1\xA0\x8E\xC2\x85") == "\xE1\xA0\x8E|");
  CHECK(cut(R"(\S+)", false, Gaps::drop, "a\xE1\xA0\x8E \x1C") == "a\xE1\xA0\x8E|\x1C|");
  CHECK(cut(R"(\\s|[\]\s])", false, Gaps::drop, R"(\s] s)") == R"(\s|]| |)");
}

}  // namespace
}  // namespace tandem::exec::tokenizer_roundtrip_test
