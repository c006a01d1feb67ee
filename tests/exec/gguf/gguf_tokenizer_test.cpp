// The tokenizers of tests/tokenizers/, carried over to GGUF files and back.

#include "exec/tokenizer/gguf_tokenizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/gguf/conversion/model_conversion.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "exec/tokenizer/sentencepiece_model.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "exec/tokenizer/unicode_form.hpp"
#include "exec/weights/random_weights.hpp"
#include "tests/exec/gguf/gguf_support.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::exec::gguf_tokenizer_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::entry;
using testing::error_of;
using testing::gguf_text;
using testing::has;
using testing::raw;

const fs::path kFolder = testing::in_sources("tests/tokenizers");

// A small model with the tokenizer `name`, and as many tokens `more` in its vocabulary.
model::Transformer make_model(const std::string& name, const fs::path& folder,
                              std::int64_t more = 0) {
  model::Transformer t = testing::small_llama();
  t.layers = 1;
  t.vocab =
      json::parse(testing::read_all(kFolder / name / "vectors.json"))["vocab"].get<std::int64_t>() +
      more;
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
    const std::string told = convert_model({.weights = home.path() / "a", .out = file});
    CHECK(has(told, "text behind special tokens begins") == (std::string(name) == "sp-bpe"));
    CHECK(told.empty() == (std::string(name) != "sp-bpe"));
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
  for (const Bad& bad : {Bad{"bpe-llama3", "takes white space along or stands alone"},
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

TEST_CASE("exec/gguf: Qwen's normalisation (NFC) is lost in a GGUF file, which is told") {
  const testing::TemporaryFolder home;
  const model::Transformer t = make_model("bpe-qwen2", home.path() / "a");
  const fs::path file = home.path() / "b.gguf";
  CHECK(has(convert_model({.weights = home.path() / "a", .out = file}), "(NFC) is not written"));
  CHECK(convert_model({.weights = file, .out = home.path() / "c.gguf"}).empty());
  CHECK(GgufFile(file).text("tokenizer.ggml.pre") == "qwen2");
  const auto folder = load_tokenizer(home.path() / "a", t);
  const auto gguf = load_tokenizer(file, t);
  CHECK(gguf->encode("e\u0301") != folder->encode("e\u0301"));
  const json vectors = json::parse(testing::read_all(kFolder / "bpe-qwen2" / "vectors.json"));
  for (const json& one : vectors["encode"]) {
    if (!one.contains("text")) continue;
    const std::string text = one["text"].get<std::string>();
    CAPTURE(text);
    CHECK(gguf->encode(normalized(text, UnicodeForm::nfc)) == folder->encode(text));
  }
}

// sp-bpe, whose tokens `stripping` take white space behind them along.
void make_phi(const fs::path& folder, const std::vector<std::string>& stripping) {
  const fs::path path = folder / "tokenizer_config.json";
  json config = json::parse(testing::read_all(path));
  json& tokens = config["added_tokens_decoder"];
  json token = tokens["1"];
  const json file = json::parse(testing::read_all(kFolder / "sp-bpe" / "vectors.json"));
  const auto first = file["vocab"].get<std::int64_t>();
  for (const char* text : {"<|endoftext|>", "<|end|>"}) {
    token["content"] = text;
    tokens[std::to_string(first + (token["content"] == "<|end|>" ? 1 : 0))] = token;
  }
  for (json& one : tokens)
    one["rstrip"] = std::ranges::count(stripping, one["content"].get<std::string>()) > 0;
  testing::write_text(path, config.dump());
}

TEST_CASE("exec/gguf: tokens that take white space along are Phi 3's, by the model's name") {
  const testing::TemporaryFolder home;
  const auto make = [&](const char* name, const std::vector<std::string>& stripping) {
    model::Transformer t = make_model("sp-bpe", home.path() / name, 2);
    make_phi(home.path() / name, stripping);
    return t;
  };
  const model::Transformer t = make("mini", {"</s>", "<|end|>"});
  const fs::path file = home.path() / "b.gguf";
  CHECK(has(convert_model({.weights = home.path() / "mini", .out = file}),
            "text behind special tokens begins"));
  CHECK(GgufFile(file).text("general.name").value_or("").starts_with("Phi-3 "));
  const fs::path other = home.path() / "other.gguf";
  CHECK(convert_model({.weights = file, .out = other}).empty());
  const auto folder = load_tokenizer(home.path() / "mini", t);
  for (const fs::path& path : {file, other}) {
    const auto gguf = load_tokenizer(path, t);
    for (const char* text : {"a</s> \n", "<|end|>  <|end|> \n</s>", "b<|endoftext|><s>", "a  b"}) {
      CAPTURE(text);
      CHECK(gguf->encode(text) == folder->encode(text));
    }
    CHECK(gguf->encode("<|end|> \n a") == gguf->encode("<|end|>a"));
    CHECK(gguf->encode("<|endoftext|> a") != gguf->encode("<|endoftext|>a"));
  }
  static_cast<void>(make("one", {"<|end|>"}));
  const std::string error = error_of([&] {
    (void)convert_model({.weights = home.path() / "one", .out = home.path() / "c.gguf"});
  });
  CHECK(has(error, "token \"<|end|>\", which takes white space along"));
}

TEST_CASE("exec/gguf: user-defined spaces are spaces in a file of a model without a first one") {
  const testing::TemporaryFolder home;
  const model::Transformer t = make_model("sp-bpe-legacy", home.path() / "a");
  const fs::path path = home.path() / "a" / "tokenizer.model";
  SentencePieceModel pieces = parse_sentencepiece(testing::read_all(path), path.string());
  CHECK(has(convert_model({.weights = home.path() / "a", .out = home.path() / "b.gguf"}),
            "text behind user-defined pieces, such as \"<usr>\", begins a new word"));
  // A raw space is in no text that SentencePiece cuts, so that "  " changes nothing.
  pieces.pieces.back() = {.text = "\u2581\u2581\u2581",
                          .kind = SentencePieceModel::Kind::user_defined};
  testing::write_text(path, to_bytes(pieces));
  const std::string error = error_of(
      [&] { (void)convert_model({.weights = home.path() / "a", .out = home.path() / "b.gguf"}); });
  CHECK(has(error, "\" with spaces, and puts a space in front of texts"));
  pieces.add_dummy_prefix = false;
  testing::write_text(path, to_bytes(pieces));
  const fs::path file = home.path() / "b.gguf";
  CHECK(convert_model({.weights = home.path() / "a", .out = file}).empty());
  CHECK(convert_model({.weights = file, .out = home.path() / "c"}).empty());
  CHECK(convert_model({.weights = home.path() / "c", .out = home.path() / "d.gguf"}).empty());
  const auto folder = load_tokenizer(home.path() / "a", t);
  std::vector<std::string> texts{"a  b", "   a", " a    b ", "<usr>  a", "a<ctl> b"};
  const json vectors = json::parse(testing::read_all(kFolder / "sp-bpe-legacy" / "vectors.json"));
  for (const json& one : vectors["encode"]) {
    if (!one.contains("text")) continue;
    // Written U+2581 beside spaces is of such a piece for SentencePiece, which looks behind the
    // replacement; llama.cpp looks for the piece in the text as it is.
    const std::string text = one["text"].get<std::string>();
    if (text.find("\u2581") == std::string::npos) texts.push_back(text);
  }
  for (const fs::path& again : {file, home.path() / "c", home.path() / "d.gguf"}) {
    const auto gguf = load_tokenizer(again, t);
    for (const std::string& text : texts) {
      CAPTURE(text);
      CHECK(gguf->encode(text) == folder->encode(text));
    }
  }
}

TEST_CASE(
    "exec/gguf: byte-level BPE puts no space in front of a text, and a folder's that does stays") {
  const testing::TemporaryFolder home;
  const model::Transformer t = make_model("bpe-gpt2", home.path() / "a");
  const fs::path file = home.path() / "b.gguf";
  CHECK(convert_model({.weights = home.path() / "a", .out = file}).empty());
  std::string bytes = testing::read_all(file);
  const std::string no =
      entry("tokenizer.ggml.add_space_prefix", 7, raw(static_cast<std::uint8_t>(0)));
  const std::size_t at = bytes.find(no);
  REQUIRE(at != std::string::npos);
  bytes[at + no.size() - 1] = 1;
  testing::write_text(home.path() / "c.gguf", bytes);
  for (const char* text : {"a b", " a", "<|endoftext|>a"}) {
    CAPTURE(text);
    CHECK(load_tokenizer(home.path() / "c.gguf", t)->encode(text) ==
          load_tokenizer(file, t)->encode(text));
  }
  const fs::path path = home.path() / "a" / "tokenizer.json";
  std::string words = testing::read_all(path);
  const std::string key = "\"add_prefix_space\":";
  REQUIRE(words.find(key) != std::string::npos);
  const std::size_t value = words.find("false", words.find(key));
  testing::write_text(path, words.replace(value, 5, "true"));
  const std::string error = error_of(
      [&] { (void)convert_model({.weights = home.path() / "a", .out = home.path() / "d.gguf"}); });
  CHECK(has(error, "puts a space in front of texts"));
}

TEST_CASE("exec/gguf: whole words are tokens of any type where merges are ignored for them") {
  const testing::TemporaryFolder home;
  const model::Transformer t = make_model("bpe-llama3", home.path() / "a", 1);
  make_plain(home.path() / "a");
  const fs::path file = home.path() / "b.gguf";
  CHECK(convert_model({.weights = home.path() / "a", .out = file}).empty());
  // The unused token that fills the vocabulary gets letters for a name.
  const std::string name = "[PAD" + std::to_string(t.vocab - 1) + "]";
  std::string bytes = testing::read_all(file);
  const std::size_t at = bytes.find(gguf_text(name));
  REQUIRE(at != std::string::npos);
  const std::string word = std::string("zqx") + std::string(name.size() - 3, 'z');
  bytes.replace(at, gguf_text(name).size(), gguf_text(word));
  testing::write_text(file, bytes);
  CHECK(convert_model({.weights = file, .out = home.path() / "c"}).empty());
  for (const fs::path& path : {file, home.path() / "c"}) {
    const std::vector<std::int32_t> ids = load_tokenizer(path, t)->encode(word);
    CHECK(ids.back() == t.vocab - 1);
  }
}

}  // namespace
}  // namespace tandem::exec::gguf_tokenizer_test
