// Tokenizers as GGUF files have them: pieces, scores, types and settings, and what is refused.

#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/gguf/conversion/model_conversion.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "exec/weights/random_weights.hpp"
#include "tests/exec/gguf/gguf_support.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::exec::gguf_pieces_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::entry;
using testing::error_of;
using testing::gguf_text;
using testing::has;
using testing::raw;
using testing::u32;
using testing::u64;

std::string texts(const std::vector<std::string>& list) {
  std::string bytes = u32(8) + u64(list.size());
  for (const std::string& text : list) bytes += gguf_text(text);
  return bytes;
}
template <class T>
std::string numbers(std::uint32_t type, const std::vector<T>& list) {
  std::string bytes = u32(type) + u64(list.size());
  for (const T value : list) bytes += raw(value);
  return bytes;
}

// <unk> <s> </s>, the bytes, then "a", "b" and "ab" with the space's sign.
struct Pieces {
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<float> scores{0, 0, 0};
  std::vector<std::int32_t> types{2, 3, 3};

  Pieces() {
    constexpr const char* kDigits = "0123456789ABCDEF";
    for (std::size_t byte = 0; byte < 256; ++byte) {
      tokens.push_back(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
      scores.push_back(0);
      types.push_back(6);
    }
    for (const char* text : {"a", "b", "\u2581", "\u2581a", "ab"}) {
      tokens.emplace_back(text);
      scores.push_back(-static_cast<float>(tokens.size()));
      types.push_back(1);
    }
  }
  void add(const std::string& text, float score, std::int32_t type) {
    tokens.push_back(text);
    scores.push_back(score);
    types.push_back(type);
  }
  // Leaves the bytes and what comes before them.
  void cut() {
    constexpr std::size_t kBytes = 3 + 256;
    tokens.resize(kBytes);
    scores.resize(kBytes);
    types.resize(kBytes);
  }
  [[nodiscard]] std::vector<std::string> lists() const {
    return {entry("tokenizer.ggml.tokens", 9, texts(tokens)),
            entry("tokenizer.ggml.scores", 9, numbers(6, scores)),
            entry("tokenizer.ggml.token_type", 9, numbers(5, types))};
  }
  [[nodiscard]] std::vector<std::string> entries() const {
    std::vector<std::string> all = lists();
    all.push_back(entry("tokenizer.ggml.model", "llama"));
    all.push_back(entry("tokenizer.ggml.bos_token_id", 1U));
    all.push_back(entry("tokenizer.ggml.eos_token_id", 2U));
    return all;
  }
};

std::vector<std::string> with(std::vector<std::string> entries, const std::string& more) {
  entries.push_back(more);
  return entries;
}

std::unique_ptr<Tokenizer> load(const std::vector<std::string>& entries) {
  const testing::TemporaryFolder folder;
  const fs::path path = folder.path() / "t.gguf";
  testing::write_text(path, testing::GgufParts{.entries = entries}.text());
  model::Transformer t = testing::small_llama();
  t.vocab = 500;
  return load_tokenizer(path, t);
}

TEST_CASE(
    "exec/gguf: add_bos, add_eos and add_space_prefix are obeyed, bos and the space assumed") {
  using Ids = std::vector<std::int32_t>;
  const std::vector<std::string> plain = Pieces().entries();
  const auto flag = [](const char* key, bool value) {
    return entry(std::string("tokenizer.ggml.") + key, 7,
                 raw(static_cast<std::uint8_t>(value ? 1 : 0)));
  };
  const std::int32_t a = 259;
  CHECK(load(plain)->encode("a") == Ids{1, a + 3});
  CHECK(load(plain)->encode("b") == Ids{1, a + 2, a + 1});
  CHECK(load(with(plain, flag("add_bos_token", false)))->encode("a") == Ids{a + 3});
  CHECK(load(with(plain, flag("add_eos_token", true)))->encode("a") == Ids{1, a + 3, 2});
  CHECK(load(with(plain, flag("add_space_prefix", false)))->encode("a") == Ids{1, a});
  // A byte without a piece, and the space behind a special token, as llama.cpp has it.
  CHECK(load(plain)->encode("ac") == Ids{1, a + 3, 3 + 'c'});
  CHECK(load(plain)->encode("</s>a") == Ids{1, 2, a + 3});
  CHECK(load(plain)->eos_tokens().front() == 2);
  // No space is removed, whatever the file says.
  const std::int32_t space = a + 2;
  CHECK(load(with(plain, flag("remove_extra_whitespaces", true)))->encode("a  b ") ==
        Ids{1, a + 3, space, space, a + 1, space});
}

TEST_CASE("exec/gguf: pieces are merged whatever their type, and found before only as they are") {
  using Ids = std::vector<std::int32_t>;
  constexpr std::int32_t kUser = 4;
  constexpr std::int32_t kUnused = 5;
  const std::int32_t a = 259;
  const std::int32_t space = a + 2;
  const std::int32_t own = a + 5;
  // U+2581 does not stand in "a  b": the two are a pair like any other.
  Pieces doubled;
  doubled.add("\u2581\u2581", -1000, kUser);
  CHECK(load(doubled.entries())->encode("a  b") == Ids{1, a + 3, own, a + 1});
  CHECK(load(doubled.entries())->encode("\u2581\u2581") == Ids{1, own});
  // But two spaces do, and what is behind begins a new word.
  Pieces spaces;
  spaces.add("  ", -1000, kUser);
  CHECK(load(spaces.entries())->encode("a  b") == Ids{1, a + 3, own, space, a + 1});
  Pieces unused;
  unused.types.back() = kUnused;
  CHECK(load(unused.entries())->encode("cab") == Ids{1, space, 3 + 'c', a + 4});
  // What is text alone does not become a token that commands.
  Pieces control;
  control.types.back() = 3;
  CHECK(load(control.entries())->encode("cab", WrittenTokens::text) ==
        Ids{1, space, 3 + 'c', a, a + 1});
  CHECK(load(control.entries())->encode("ab") == Ids{1, a + 4});
  // The longest of tokens that overlap, not the leftmost.
  Pieces overlap;
  overlap.add("ca", 0, kUser);
  overlap.add("abb", 0, kUser);
  CHECK(load(overlap.entries())->encode("cabb") == Ids{1, space, 3 + 'c', own + 1});
}

// A small model whose file's tokenizer is `entries`.
fs::path with_tokenizer(const fs::path& folder, const std::vector<std::string>& entries,
                        std::size_t tokens) {
  model::Transformer t = testing::small_llama();
  t.layers = 1;
  t.vocab = static_cast<std::int64_t>(tokens);
  write_random_weights(t, 1, model::DType::f32, folder / "plain");
  static_cast<void>(convert_model({.weights = folder / "plain", .out = folder / "plain.gguf"}));
  std::string file = testing::read_all(folder / "plain.gguf");
  const std::string none = entry("tokenizer.ggml.model", "no_vocab");
  const std::size_t at = file.find(none);
  REQUIRE(at != std::string::npos);
  constexpr std::size_t kCount = 16;  // where the number of entries stands
  const std::uint64_t before = static_cast<unsigned char>(file[kCount]);
  std::string all;
  for (const std::string& one : entries) all += one;
  file.replace(at, none.size(), all);
  // The tensors begin at a multiple of 32 bytes, as before: a text of the right length sees to it.
  const std::string filler = entry("general.note", "");
  file.replace(kCount, 8, u64(before + entries.size()));
  const std::size_t more = all.size() + filler.size() - none.size();
  file.insert(at, entry("general.note", std::string(31 - (more + 31) % 32, ' ')));
  const fs::path path = folder / "words.gguf";
  testing::write_text(path, file);
  return path;
}

TEST_CASE("exec/gguf: a file's tokenizer is carried to another file as it is, and to a folder") {
  const testing::TemporaryFolder home;
  Pieces pieces;
  pieces.add("\u2581\u2581", -1000, 4);
  pieces.add("  ", -1000, 4);
  pieces.add("ba", -1, 5);
  pieces.add("[PAD7]", 0, 5);
  std::vector<std::string> entries =
      with(pieces.entries(), entry("tokenizer.ggml.merges", 9, texts({"a b"})));
  entries.push_back(entry("tokenizer.ggml.padding_token_id", 7U));
  const fs::path path = with_tokenizer(home.path(), entries, pieces.tokens.size());
  const fs::path other = home.path() / "other.gguf";
  const fs::path folder = home.path() / "folder";
  CHECK(convert_model({.weights = path, .out = other}).empty());
  CHECK(convert_model({.weights = path, .out = folder}).empty());
  const GgufFile before(path);
  const GgufFile after(other);
  for (const auto& [key, value] : before.values()) {
    CAPTURE(key);
    if (key.starts_with("tokenizer.")) CHECK(after.find(key)->value == value.value);
  }
  model::Transformer t = testing::small_llama();
  t.vocab = static_cast<std::int64_t>(pieces.tokens.size());
  const auto expected = load_tokenizer(path, t);
  for (const fs::path& again : {other, folder}) {
    const auto tokenizer = load_tokenizer(again, t);
    for (const char* text : {"a  b", "   a", "\u2581\u2581a", "bab ba  ", "</s>  a", "[PAD7]"}) {
      CAPTURE(text);
      CHECK(tokenizer->encode(text) == expected->encode(text));
      CHECK(tokenizer->encode(text, WrittenTokens::text) ==
            expected->encode(text, WrittenTokens::text));
    }
  }
}

TEST_CASE("exec/gguf: llama.cpp knows tokens by their texts, and Phi 3's by the model's name") {
  using Ids = std::vector<std::int32_t>;
  const std::int32_t a = 259;
  const std::int32_t own = a + 5;
  Pieces pieces;
  pieces.add("<|end|>", -1, 1);
  pieces.add("<|endoftext|>", -1, 3);
  const std::vector<std::string> plain = pieces.entries();
  CHECK(load(plain)->encode("<|end|> a") == Ids{1, own, a + 2, a + 3});
  CHECK(load(plain)->piece(own).empty());
  const auto phi = load(with(plain, entry("general.name", "My Phi-3 mini")));
  CHECK(phi->encode("<|end|> \n a") == Ids{1, own, a + 3});
  CHECK(phi->encode("<|endoftext|> a") == Ids{1, own + 1, a + 2, a + 3});
}

// Random pieces of all types, and llama.cpp's tokens: tests/llama/check_tokens.py --goldens.
TEST_CASE("exec/gguf: pieces of any type and score make the tokens that llama.cpp makes of them") {
  const fs::path path = testing::in_sources("tests/data/gguf_pieces.json");
  std::size_t count = 0;
  for (const json& one : json::parse(testing::read_all(path))) {
    Pieces pieces;
    pieces.cut();
    pieces.types[2] = one["end_type"].get<std::int32_t>();
    for (std::size_t i = 0; i < one["tokens"].size(); ++i)
      pieces.add(one["tokens"][i].get<std::string>(), one["scores"][i].get<float>(),
                 one["token_type"][i].get<std::int32_t>());
    std::vector<std::string> entries = pieces.lists();
    for (const auto& [key, value] : one["settings"].items()) {
      if (value.is_boolean()) {
        entries.push_back(entry(key, 7, raw(static_cast<std::uint8_t>(value.get<bool>() ? 1 : 0))));
      } else if (value.is_number()) {
        entries.push_back(entry(key, value.get<std::uint32_t>()));
      } else {
        entries.push_back(entry(key, value.get<std::string>()));
      }
    }
    const auto tokenizer = load(entries);
    for (const json& text : one["cases"]) {
      CAPTURE(text["text"].get<std::string>());
      const auto written =
          text["special"].get<bool>() ? WrittenTokens::tokens : WrittenTokens::text;
      CHECK(tokenizer->encode(text["text"].get<std::string>(), written) ==
            text["ids"].get<std::vector<std::int32_t>>());
      ++count;
    }
  }
  CHECK(count > 300);
}

TEST_CASE("exec/gguf: without a tokenizer, or with none said, tokens are bytes") {
  CHECK(load({})->encode("a") == std::vector<std::int32_t>{'a'});
  CHECK(load({entry("tokenizer.ggml.model", "no_vocab")})->encode("b") ==
        std::vector<std::int32_t>{'b'});
}

TEST_CASE("exec/gguf: a tokenizer that is not known, or contradicts itself, is refused") {
  const Pieces pieces;
  const auto pairs = [](const std::string& pre) {
    return std::vector<std::string>{
        entry("tokenizer.ggml.model", "gpt2"), entry("tokenizer.ggml.tokens", 9, texts({"a"})),
        entry("tokenizer.ggml.merges", 9, texts({})), entry("tokenizer.ggml.pre", pre)};
  };
  struct Bad {
    std::vector<std::string> entries;
    const char* part;
  };
  Pieces short_scores;
  short_scores.scores.pop_back();
  Pieces odd_type;
  odd_type.types.back() = 9;
  Pieces twice;
  twice.tokens.back() = "a";
  Pieces no_unknown;
  no_unknown.types.front() = 1;
  std::vector<std::string> no_pre = pairs("gpt-2");
  no_pre.pop_back();
  const std::vector<Bad> all{
      {{entry("tokenizer.ggml.model", "t5")}, "tokenizer.ggml.model is 't5'"},
      {{entry("tokenizer.ggml.model", "llama")}, "tokenizer.ggml.tokens is missing"},
      {pairs("unheard-of"), "tokenizer.ggml.pre is 'unheard-of', expected one of gpt-2"},
      {no_pre, "tokenizer.ggml.pre is missing"},
      {pairs("gpt-2"), "one for each byte of written text"},
      {short_scores.entries(), "tokenizer.ggml.scores is an array of 263, expected 264"},
      {odd_type.entries(), "types from 1 to 6"},
      {twice.entries(), "both are \"a\""},
      {no_unknown.entries(), "expected one"},
      {with(pieces.entries(), entry("tokenizer.ggml.pre", "llama-bpe")), "tokenizer.ggml.pre"},
      {with(pieces.entries(), entry("tokenizer.ggml.eot_token_id", 264U)), "below 264"},
      {with(pieces.entries(), entry("tokenizer.ggml.novel", 1U)), "tokenizer.ggml.novel"},
      {with(pieces.entries(),
            entry("tokenizer.ggml.precompiled_charsmap", 9, numbers<std::uint8_t>(0, {1, 2}))),
       "precompiled_charsmap"}};
  for (const Bad& bad : all) {
    CAPTURE(bad.part);
    const std::string error = error_of([&] { (void)load(bad.entries); });
    CAPTURE(error);
    CHECK(has(error, bad.part));
    CHECK(has(error, "t.gguf: "));
  }
}

}  // namespace
}  // namespace tandem::exec::gguf_pieces_test
