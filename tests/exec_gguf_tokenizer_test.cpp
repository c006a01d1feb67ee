// The tokenizers of tests/tokenizers/, carried over to GGUF files and back.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/gguf/gguf_file.hpp"
#include "exec/gguf/gguf_tokenizer.hpp"
#include "exec/gguf/model_conversion.hpp"
#include "exec/tokenizer/sentencepiece_model.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "exec/tokenizer/unicode_form.hpp"
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
  CHECK(convert_model({.weights = home.path() / "mini", .out = file}).empty());
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
fs::path with_tokenizer(const fs::path& folder, const std::vector<std::string>& entries) {
  model::Transformer t = testing::small_llama();
  t.layers = 1;
  t.vocab = 500;
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
  const fs::path path = with_tokenizer(home.path(), entries);
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
  t.vocab = 500;
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
  const fs::path path = fs::path(TANDEM_SOURCE_DIR) / "tests/data/gguf_pieces.json";
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
