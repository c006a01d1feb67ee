// The tokenizers of tests/tokenizers/, carried over to GGUF files and back.

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/gguf/gguf_file.hpp"
#include "exec/gguf/gguf_tokenizer.hpp"
#include "exec/gguf/model_conversion.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "exec/weights/random.hpp"
#include "gguf_support.hpp"
#include "weights_support.hpp"

namespace tandem::exec {
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

const fs::path kFolder = fs::path(TANDEM_SOURCE_DIR) / "tests/tokenizers";

// A small model with the tokenizer `name`.
model::Transformer make_model(const std::string& name, const fs::path& folder) {
  model::Transformer t = testing::small_llama();
  t.layers = 1;
  t.vocab =
      json::parse(testing::read_all(kFolder / name / "vectors.json"))["vocab"].get<std::int64_t>();
  write_random_weights(t, 1, model::DType::f32, folder);
  for (const auto& file : fs::directory_iterator(kFolder / name)) {
    if (file.path().filename() != "vectors.json")
      fs::copy(file.path(), folder / file.path().filename());
  }
  return t;
}

// What GGUF cannot say of added tokens, said of none.
void make_plain(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    if (!fs::exists(folder / name)) continue;
    json file = json::parse(testing::read_all(folder / name));
    const auto clear = [](json& token) {
      for (const char* key : {"lstrip", "rstrip", "single_word"}) {
        if (token.is_object() && token.contains(key)) token[key] = false;
      }
    };
    for (const char* key : {"added_tokens", "added_tokens_decoder"}) {
      if (!file.contains(key)) continue;
      for (json& token : file[key]) clear(token);
    }
    testing::write_text(folder / name, file.dump());
  }
}

TEST_CASE(
    "exec/gguf: a tokenizer makes the same tokens in a folder, a GGUF file and a folder again") {
  for (const char* name : {"sp-bpe", "bpe-gpt2", "bpe-llama3", "bpe-files-gpt2"}) {
    CAPTURE(std::string(name));
    const testing::TemporaryFolder home;
    const model::Transformer t = make_model(name, home.path() / "a");
    const fs::path file = home.path() / "b.gguf";
    make_plain(home.path() / "a");
    CHECK(convert_model({.weights = home.path() / "a", .out = file}).empty());
    CHECK(convert_model({.weights = file, .out = home.path() / "c"}).empty());
    const auto folder = load_tokenizer(home.path() / "a", t);
    const auto gguf = load_tokenizer(file, t);
    const auto again = load_tokenizer(home.path() / "c", t);
    CHECK(gguf->bos_token() == folder->bos_token());
    const json cases = json::parse(testing::read_all(kFolder / name / "vectors.json"))["encode"];
    std::size_t count = 0;
    for (const json& one : cases) {
      if (!one.contains("text")) continue;
      const std::string text = one["text"].get<std::string>();
      CAPTURE(text);
      const auto ids = folder->encode(text);
      // Behind a special token llama.cpp begins a new word, as only older folders do.
      const bool same =
          std::string(name) != "sp-bpe" || ids == folder->encode(text, WrittenTokens::text);
      if (same) CHECK(gguf->encode(text) == ids);
      CHECK(again->encode(text) == gguf->encode(text));
      CHECK(gguf->encode(text, WrittenTokens::text) == folder->encode(text, WrittenTokens::text));
      CHECK(decode(*gguf, ids) == decode(*folder, ids));
      CHECK(decode(*again, ids) == decode(*folder, ids));
      ++count;
    }
    CHECK(count > 10);
  }
}

TEST_CASE("exec/gguf: a tokenizer that the format cannot say is refused, and nothing written") {
  struct Bad {
    const char* name;
    const char* part;
  };
  for (const Bad& bad : {Bad{"sp-bpe-legacy", "user-defined piece"},
                         Bad{"bpe-llama3", "takes white space along or stands alone"},
                         Bad{"bpe-qwen2", "normalises texts"},
                         Bad{"sp-unigram", "another kind than SentencePiece's BPE"}}) {
    CAPTURE(bad.name);
    const testing::TemporaryFolder home;
    (void)make_model(bad.name, home.path() / "a");
    const std::string error = error_of([&] {
      (void)convert_model({.weights = home.path() / "a", .out = home.path() / "b.gguf"});
    });
    CAPTURE(error);
    CHECK(has(error, bad.part));
    CHECK(!fs::exists(home.path() / "b.gguf"));
  }
}

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
  [[nodiscard]] std::vector<std::string> entries() const {
    return {entry("tokenizer.ggml.model", "llama"),
            entry("tokenizer.ggml.tokens", 9, texts(tokens)),
            entry("tokenizer.ggml.scores", 9, numbers(6, scores)),
            entry("tokenizer.ggml.token_type", 9, numbers(5, types)),
            entry("tokenizer.ggml.bos_token_id", 1U),
            entry("tokenizer.ggml.eos_token_id", 2U)};
  }
};

std::unique_ptr<Tokenizer> load(const std::vector<std::string>& entries) {
  const testing::TemporaryFolder folder;
  const fs::path path = folder.path() / "t.gguf";
  testing::write_text(path, testing::GgufParts{.entries = entries}.text());
  model::Transformer t = testing::small_llama();
  t.vocab = 300;
  return load_tokenizer(path, t);
}

std::vector<std::string> with(std::vector<std::string> entries, const std::string& more) {
  entries.push_back(more);
  return entries;
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
      {pairs("gpt-2"), "one for each byte of UTF-8"},
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
}  // namespace tandem::exec
