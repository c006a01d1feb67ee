// Vocabularies as other programs write them into GGUF files.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/gguf/conversion/model_conversion.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "exec/tokenizer/byte_alphabet.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "exec/weights/model_folder.hpp"
#include "tests/exec/gguf/gguf_support.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::exec::gguf_vocabularies_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::entry;
using testing::error_of;
using testing::has;
using testing::raw;
using testing::real_entry;
using testing::u32;
using testing::u64;

using Ids = std::vector<std::int32_t>;
using Texts = std::vector<std::string>;

std::string texts(const Texts& list) {
  std::string bytes = u32(8) + u64(list.size());
  for (const std::string& text : list) bytes += testing::gguf_text(text);
  return bytes;
}
template <class T>
std::string numbers(std::uint32_t type, const std::vector<T>& list) {
  std::string bytes = u32(type) + u64(list.size());
  for (const T value : list) bytes += raw(value);
  return bytes;
}

// Tokens, their types, and the other entries of tokenizer.ggml by name.
struct Words {
  Texts tokens;
  std::vector<std::int32_t> types;
  Texts entries;

  void add(const std::string& text, std::int32_t type = 1) {
    tokens.push_back(text);
    types.push_back(type);
  }
  [[nodiscard]] Texts all() const {
    Texts result = entries;
    result.push_back(entry("tokenizer.ggml.tokens", 9, texts(tokens)));
    result.push_back(entry("tokenizer.ggml.token_type", 9, numbers(5, types)));
    return result;
  }
};

// A model of one layer with that vocabulary, all zeros, and `rows` of its embedding.
std::string model_text(const Words& words, std::size_t rows) {
  testing::GgufParts parts;
  parts.entries = words.all();
  parts.entries.push_back(entry("general.architecture", "llama"));
  for (const auto& [key, number] :
       std::initializer_list<std::pair<const char*, std::uint32_t>>{{"block_count", 1},
                                                                    {"context_length", 16},
                                                                    {"embedding_length", 8},
                                                                    {"feed_forward_length", 8},
                                                                    {"attention.head_count", 2}})
    parts.entries.push_back(entry(std::string("llama.") + key, number));
  parts.entries.push_back(real_entry("llama.attention.layer_norm_rms_epsilon", 1e-5F));
  const auto add = [&](const std::string& name, const std::vector<std::uint64_t>& sizes) {
    parts.tensors.push_back(testing::tensor_entry(name, sizes, 0, parts.data));
    std::size_t bytes = sizeof(float);
    for (const std::uint64_t size : sizes) bytes *= size;
    parts.data += (bytes + 31) / 32 * 32;
  };
  add("token_embd.weight", {8, rows});
  add("output_norm.weight", {8});
  for (const char* norm : {"attn_norm", "ffn_norm"})
    add(std::string("blk.0.") + norm + ".weight", {8});
  for (const char* matrix :
       {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
    add(std::string("blk.0.") + matrix + ".weight", {8, 8});
  return parts.text();
}

class Home {
 public:
  fs::path write(const Words& words, std::size_t rows) {
    testing::write_text(folder_.path() / "t.gguf", model_text(words, rows));
    return folder_.path() / "t.gguf";
  }
  fs::path write(const Words& words) { return write(words, words.tokens.size()); }
  [[nodiscard]] fs::path other(const char* name) const { return folder_.path() / name; }

 private:
  testing::TemporaryFolder folder_;
};

std::unique_ptr<Tokenizer> load(const fs::path& path) {
  return load_tokenizer(path, read_geometry(path));
}

TEST_CASE("exec/gguf: as many tokens as the embedding has rows, no more and no fewer") {
  Home home;
  Words words{.tokens = {}, .types = {}, .entries = {entry("tokenizer.ggml.model", "no_vocab")}};
  for (int i = 0; i < 300; ++i) words.add("t" + std::to_string(i));
  CHECK(read_geometry(home.write(words)).vocab == 300);
  for (const std::size_t rows : {299U, 301U, 512U}) {
    CAPTURE(rows);
    const std::string error = error_of([&] { (void)read_geometry(home.write(words, rows)); });
    CHECK(has(error, "tokenizer.ggml.tokens is an array of 300, expected " + std::to_string(rows) +
                         " texts, one for each row of token_embd.weight"));
  }
}

// As Phi 3's: the unknown piece is a control token, and the padding is of the unknown type.
Words padded_pieces() {
  Words words{.tokens = {"<unk>", "<s>", "</s>"},
              .types = {3, 3, 3},
              .entries = {entry("tokenizer.ggml.model", "llama"),
                          entry("tokenizer.ggml.unknown_token_id", 0U)}};
  constexpr const char* kDigits = "0123456789ABCDEF";
  for (std::size_t byte = 0; byte < 256; ++byte)
    words.add(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">", 6);
  for (const char* text : {"\u2581", "a", "\u2581a"}) words.add(text);
  for (int i = 0; i < 3; ++i) words.add("[PAD" + std::to_string(i) + "]", 2);
  words.entries.push_back(
      entry("tokenizer.ggml.scores", 9, numbers(6, std::vector<float>(words.tokens.size(), 0.0F))));
  return words;
}

TEST_CASE("exec/gguf: padding of the unknown type is no obstacle, and is looked for in texts") {
  Home home;
  const Words words = padded_pieces();
  const fs::path path = home.write(words);
  CHECK(convert_model({.weights = path, .out = home.other("folder")}).empty());
  CHECK(convert_model({.weights = path, .out = home.other("again.gguf")}).empty());
  const auto first = static_cast<std::int32_t>(words.tokens.size()) - 3;
  for (const fs::path& one : {path, home.other("folder"), home.other("again.gguf")}) {
    CAPTURE(one.string());
    const auto tokenizer = load(one);
    CHECK(tokenizer->encode("a[PAD1]") == Ids{1, first - 1, first + 1});
    CHECK(tokenizer->encode("ac") == Ids{1, first - 1, 3 + 'c'});
    CHECK(tokenizer->piece(first + 1).empty());
  }
}

TEST_CASE("exec/gguf: the only piece of the unknown type is it, whatever unknown_token_id says") {
  Home home;
  Words words = padded_pieces();
  words.types.front() = 2;
  std::ranges::replace(words.types.begin() + 1, words.types.end(), 2, 5);
  words.entries[1] = entry("tokenizer.ggml.unknown_token_id", 2U);
  const auto tokenizer = load(home.write(words));
  CHECK(tokenizer->piece(0) == " \u2047 ");
  CHECK(tokenizer->piece(2).empty());
}

// Byte-level BPE with the letters of all bytes but `without`.
Words alphabet(const std::string& pre, const std::vector<int>& without) {
  Words words{.tokens = {},
              .types = {},
              .entries = {entry("tokenizer.ggml.model", "gpt2"), entry("tokenizer.ggml.pre", pre),
                          entry("tokenizer.ggml.bos_token_id", 0U)}};
  for (int byte = 0; byte < 256; ++byte) {
    if (std::ranges::find(without, byte) != without.end()) continue;
    words.add(to_utf8(letter_of(static_cast<unsigned char>(byte))));
  }
  words.add("ab");
  words.entries.push_back(entry("tokenizer.ggml.merges", 9, texts({"a b"})));
  return words;
}

TEST_CASE("exec/gguf: an alphabet may lack bytes of unwritten text, which is refused then") {
  Home home;
  // Falcon's and StarCoder's.
  const std::vector<int> falcon{3,   4,   5,   11,  17,  19,  20,  21,  22,  23,
                                25,  28,  29,  30,  192, 193, 242, 245, 246, 247,
                                248, 249, 250, 251, 252, 253, 254, 255};
  const auto tokenizer = load(home.write(alphabet("falcon", falcon)));
  const Ids ids = tokenizer->encode("ab \u00e9\u65e5\U0001f642\n\t");
  CHECK(decode(*tokenizer, ids) == "ab \u00e9\u65e5\U0001f642\n\t");
  CHECK(has(error_of([&] { (void)tokenizer->encode("ab\v"); }),
            "text: has character U+000B, for whose byte 11 the vocabulary of"));
  CHECK(has(error_of([&] { (void)tokenizer->encode("ab\U00080000"); }),
            "character U+80000, for whose byte 242"));
  const auto star = load(home.write(alphabet(
      "starcoder", {192, 193, 241, 245, 246, 247, 248, 249, 250, 251, 252, 253, 254, 255})));
  CHECK(decode(*star, star->encode("\v\U00080000")) == "\v\U00080000");
  CHECK(has(error_of([&] { (void)star->encode("\U00040000"); }), "U+40000, for whose byte 241"));
  for (const int byte : {9, 10, 13, 32, 113, 0x80, 0xBF, 0xC2, 0xE3, 0xF0}) {
    CAPTURE(byte);
    CHECK(has(error_of([&] { (void)load(home.write(alphabet("gpt-2", {byte}))); }),
              "one for each byte of written text, also " + std::to_string(byte) + " "));
  }
}

TEST_CASE("exec/gguf: letters of bytes are tokens of bytes whatever their type, but for control") {
  Home home;
  Words words = alphabet("deepseek-llm", {});
  // As DeepSeek's, whose letters of bytes that UTF-8 lacks were added later.
  words.types[0xF8] = 4;
  const auto tokenizer = load(home.write(words));
  const Ids ids = tokenizer->encode("\u00f8");
  CHECK(std::ranges::count(ids, 0xF8) == 1);
  CHECK(tokenizer->piece(0xF8) == "\u00f8");
  words.types['a'] = 4;
  CHECK_NOTHROW((void)load(home.write(words)));
  words.types['a'] = 3;
  CHECK(has(error_of([&] { (void)load(home.write(words)); }), "also 97 (\"a\")"));
}

Words word_pieces() {
  Words words{
      .tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]"},
      .types = {3, 3, 3, 3},
      .entries = {entry("tokenizer.ggml.model", "bert"), entry("tokenizer.ggml.pre", "bert-bge"),
                  entry("tokenizer.ggml.unknown_token_id", 1U),
                  entry("tokenizer.ggml.cls_token_id", 2U),
                  entry("tokenizer.ggml.seperator_token_id", 3U)}};
  for (const char* text : {"[unused0]", "\u2581run", "ning", "\u2581ning", "\u2581!", "\u2581#"})
    words.add(text);
  return words;
}

TEST_CASE("exec/gguf: WordPiece marks words where a vocab.txt marks what continues them") {
  Home home;
  const Words words = word_pieces();
  const fs::path path = home.write(words);
  CHECK(convert_model({.weights = path, .out = home.other("folder")}).empty());
  CHECK(convert_model({.weights = path, .out = home.other("again.gguf")}).empty());
  CHECK(testing::read_all(home.other("folder") / "vocab.txt") ==
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[unused0]\nrun\n##ning\nning\n!\n#\n");
  for (const fs::path& one : {path, home.other("folder"), home.other("again.gguf")}) {
    CAPTURE(one.string());
    const auto tokenizer = load(one);
    CHECK(tokenizer->encode("R\u00fanning! ningning") == Ids{2, 5, 6, 8, 7, 6, 3});
    CHECK(tokenizer->encode("runs ##[PAD]") == Ids{2, 1, 9, 9, 0, 3});
    CHECK(tokenizer->encode("[PAD]", WrittenTokens::text) == Ids{2, 1, 1, 1, 3});
    CHECK(decode(*tokenizer, Ids{2, 5, 6, 8, 3}) == "running !");
  }
}

TEST_CASE("exec/gguf: WordPiece that is not the usual one is refused by its key") {
  Home home;
  const auto refused = [&](const std::string& more, const char* token = nullptr) {
    Words words = word_pieces();
    if (!more.empty()) words.entries.push_back(more);
    if (token != nullptr) words.add(token);
    return error_of([&] { (void)load(home.write(words)); });
  };
  const std::string no(1, '\0');
  CHECK(has(refused(entry("tokenizer.ggml.add_bos_token", 7, no)), "add_bos_token is false"));
  CHECK(has(refused(entry("tokenizer.ggml.add_sep_token", 7, no)), "add_sep_token is false"));
  CHECK(has(refused(entry("tokenizer.ggml.bos_token_id", 99U)), "bos_token_id is 99"));
  CHECK(has(refused(entry("tokenizer.ggml.novel", 1U)), "tokenizer.ggml.novel"));
  for (const char* token : {"\u2581", "", "a\nb", "\u2581##a"}) {
    CAPTURE(token);
    CHECK(has(refused("", token), "words and pieces of words, not"));
  }
  Words cased = word_pieces();
  cased.entries.push_back(entry("tokenizer.ggml.normalizer.lowercase", 7, no));
  CHECK(load(home.write(cased))->encode("run Run r\u00fan") == Ids{2, 5, 1, 1, 3});
}

// Random vocabularies, and llama.cpp's tokens: tests/llama/check_tokens.py --word-goldens.
TEST_CASE("exec/gguf: words of every pre-tokenizer, and WordPiece, are cut as llama.cpp does") {
  const fs::path path = testing::in_sources("tests/data/gguf_words.json");
  std::size_t count = 0;
  for (const json& one : json::parse(testing::read_all(path))) {
    CAPTURE(one["settings"].dump());
    const Texts merges = one["merges"].get<Texts>();
    Words words;
    if (!merges.empty()) {
      words = alphabet("", {});
      words.tokens.resize(256);
      words.types.resize(256);
      words.entries = {entry("tokenizer.ggml.merges", 9, texts(merges))};
    }
    for (std::size_t i = 0; i < one["tokens"].size(); ++i)
      words.add(one["tokens"][i].get<std::string>(), one["token_type"][i].get<std::int32_t>());
    for (const auto& [key, value] : one["settings"].items()) {
      if (value.is_boolean()) {
        words.entries.push_back(
            entry(key, 7, raw(static_cast<std::uint8_t>(value.get<bool>() ? 1 : 0))));
      } else if (value.is_number()) {
        words.entries.push_back(entry(key, value.get<std::uint32_t>()));
      } else {
        words.entries.push_back(entry(key, value.get<std::string>()));
      }
    }
    Home home;
    const auto tokenizer = load(home.write(words));
    for (const json& text : one["cases"]) {
      CAPTURE(text["text"].get<std::string>());
      const auto written =
          text["special"].get<bool>() ? WrittenTokens::tokens : WrittenTokens::text;
      CHECK(tokenizer->encode(text["text"].get<std::string>(), written) == text["ids"].get<Ids>());
      ++count;
    }
  }
  CHECK(count > 300);
}

}  // namespace
}  // namespace tandem::exec::gguf_vocabularies_test
