// Damaged, foreign and hostile tokenizer files: each costs one clear error.

#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/tokenizer/added_tokens.hpp"
#include "exec/tokenizer/byte_alphabet.hpp"
#include "exec/tokenizer/sentencepiece_model.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "tests/exec/weights/weights_support.hpp"

namespace tandem::exec::bad_tokenizer_files_test {
namespace {

using nlohmann::json;
using testing::error_of;
using testing::has;
using Ids = std::vector<std::int32_t>;

// The bytes, "ab", "abc"; ids of bytes are the bytes. Special token <end> is 258.
json small_bpe() {
  json vocab;
  for (int byte = 0; byte < 256; ++byte) {
    vocab[to_utf8(letter_of(static_cast<unsigned char>(byte)))] = byte;
  }
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  return {{"added_tokens", {{{"id", 258}, {"content", "<end>"}, {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", "ab c"}}}}};
}

std::unique_ptr<Tokenizer> load(const testing::TemporaryFolder& folder, std::int64_t vocab = 300) {
  auto transformer = testing::small_llama();
  transformer.vocab = vocab;
  return load_tokenizer(folder.path(), transformer);
}

std::unique_ptr<Tokenizer> load(const json& file, std::int64_t vocab = 300) {
  const testing::TemporaryFolder folder;
  testing::write_text(folder.path() / "tokenizer.json", file.dump());
  return load(folder, vocab);
}

// What is said of a folder with these files.
std::string refusal(const std::vector<std::pair<const char*, std::string>>& files,
                    std::int64_t vocab = 300) {
  const testing::TemporaryFolder folder;
  for (const auto& [name, text] : files) testing::write_text(folder.path() / name, text);
  return error_of([&] { const auto tokenizer = load(folder, vocab); });
}

SentencePieceModel small_pieces() {
  using Kind = SentencePieceModel::Kind;
  SentencePieceModel model;
  model.algorithm = SentencePieceModel::Algorithm::bpe;
  model.pieces = {{"<unk>", 0.0F, Kind::unknown},
                  {"<s>", 0.0F, Kind::control},
                  {"</s>", 0.0F, Kind::control},
                  {"\xE2\x96\x81", -3.0F, Kind::normal},
                  {"a", -4.0F, Kind::normal},
                  {"\xE2\x96\x81"
                   "a",
                   -1.0F, Kind::normal}};
  return model;
}

TEST_CASE("exec/tokenizer.json: a small one, a merge \"a b\" and one of \"ab c\"") {
  const auto tokenizer = load(small_bpe());
  CHECK(tokenizer->encode("abcab") == Ids{257, 256});
  CHECK(tokenizer->encode("<end>ab") == Ids{258, 256});
  CHECK(tokenizer->piece(257) == "abc");
  CHECK(tokenizer->piece(258).empty());
  CHECK(tokenizer->piece(259) == "<259>");
  CHECK(has(error_of([&] { const auto p = tokenizer->piece(300); }), "outside the vocabulary"));
  CHECK(tokenizer->description() == "byte-level BPE, 259 tokens");
}

TEST_CASE("exec/tokenizer.json: other kinds of tokenizers are named") {
  struct Case {
    const char* path;
    json value;
    const char* named;
  };
  const json split{{"type", "Split"},
                   {"pattern", {{"Regex", "a"}}},
                   {"behavior", "MergedWithNext"},
                   {"invert", false}};
  for (const Case& c : std::vector<Case>{
           {"/model/type", "WordPiece", "model \"WordPiece\""},
           {"/model/type", "Unigram", "model \"Unigram\""},
           {"/model/byte_fallback", true, "byte_fallback"},
           {"/model/dropout", 0.1, "dropout"},
           {"/model/end_of_word_suffix", "</w>", "</w>"},
           {"/model/continuing_subword_prefix", "##", "##"},
           {"/pre_tokenizer", nullptr, "without ByteLevel"},
           {"/pre_tokenizer", {{"type", "Metaspace"}}, "Metaspace"},
           {"/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split}}}, "MergedWithNext"},
           {"/normalizer", {{"type", "Lowercase"}}, "Lowercase"},
           {"/decoder", {{"type", "Metaspace"}}, "Metaspace"},
           {"/decoder", nullptr, "decoder \"none\""},
           {"/post_processor", {{"type", "BertProcessing"}}, "BertProcessing"},
       }) {
    CAPTURE(c.path);
    json file = small_bpe();
    file[json::json_pointer(c.path)] = c.value;
    const std::string error = error_of([&] { const auto t = load(file); });
    CAPTURE(error);
    CHECK(has(error, c.named));
    CHECK(has(error, "tokenizer.json: "));
    CHECK(has(error, "--prompt-ids"));
  }
}

TEST_CASE("exec/tokenizer.json: contradictions and wrong types are found") {
  struct Case {
    const char* path;
    json value;
    const char* said;
  };
  const json added_twice{{{"id", 258}, {"content", "<x>"}}, {{"id", 258}, {"content", "<y>"}}};
  const json evil_class{{"type", "Split"},
                        {"pattern", {{"Regex", "[a"}}},
                        {"behavior", "Isolated"},
                        {"invert", false}};
  for (const Case& c : std::vector<Case>{
           {"/model", "text", "field 'model' is \"text\""},
           {"/model/vocab", json::object(), "an object of tokens"},
           {"/model/vocab", json::array(), "an object of tokens"},
           {"/model/vocab/ab", 257, "have the same id 257"},
           {"/model/vocab/ab", -1, "an integer from 0"},
           {"/model/vocab/ab", 1e18, "an integer from 0"},
           {"/model/vocab/ab", 9223372036854775807, "an integer from 0"},
           {"/model/vocab/ab", 2147483647, "id 2147483647, expected less than the vocabulary"},
           {"/model/vocab/ab", "1", "an integer from 0"},
           {"/model/merges", "a b", "an array of merges"},
           {"/model/merges/0", "ab", "two tokens"},
           {"/model/merges/0", " ab", "two tokens"},
           {"/model/merges/0", {"a"}, "two tokens"},
           {"/model/merges/0", {"a", 1}, "two tokens"},
           {"/model/merges/0", 7, "two tokens"},
           {"/model/merges/0", "a xyz", "names token \"xyz\""},
           {"/model/merges/0", "a a", "names token \"aa\""},
           {"/model/unk_token", "<unk>", "a token of the vocabulary"},
           {"/added_tokens", 5, "an array of at most"},
           {"/added_tokens/0/id", -5, "an integer from 0"},
           {"/added_tokens/0/id", 300, "expected less than the vocabulary of the model, 300"},
           {"/added_tokens/0/id", 97, "have the same id 97"},
           {"/added_tokens/0/content", "ab", "expected the vocabulary's 256"},
           {"/added_tokens/0/content", 3, "a string"},
           {"/added_tokens/0/special", "yes", "true or false"},
           {"/added_tokens", added_twice, "have the same id 258"},
           {"/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {evil_class}}}, "refused"},
           {"/post_processor",
            {{"type", "TemplateProcessing"}, {"single", json::array()}},
            "the text, {"},
       }) {
    CAPTURE(c.path);
    json file = small_bpe();
    file[json::json_pointer(c.path)] = c.value;
    const std::string error = error_of([&] { const auto t = load(file); });
    CAPTURE(error);
    CHECK(has(error, c.said));
  }
  json file = small_bpe();
  file["model"]["vocab"].erase("a");
  file["model"]["merges"] = json::array();
  CHECK(has(error_of([&] { const auto t = load(file); }), "no token for byte 97"));
  // One token for each byte without a token, or for all that follow each other.
  file["model"]["unk_token"] = "b";
  CHECK(load(file)->encode("aa") == std::vector<std::int32_t>{98, 98});
  file["model"]["fuse_unk"] = true;
  CHECK(has(error_of([&] { const auto t = load(file); }), "BPE with \"fuse_unk\""));
  CHECK_NOTHROW((void)[&] {
    json whole = small_bpe();
    whole["model"]["unk_token"] = "b";
    whole["model"]["fuse_unk"] = true;
    return load(whole);
  }());
  CHECK(has(error_of([&] { const auto t = load(small_bpe(), 258); }),
            "expected less than the vocabulary of the model, 258"));
}

TEST_CASE("exec/tokenizer.json: no beginning of a file is taken for the whole") {
  const std::string text = small_bpe().dump();
  for (std::size_t size = 0; size < text.size(); size += 7) {
    CAPTURE(size);
    CHECK(has(refusal({{"tokenizer.json", text.substr(0, size)}}), "tokenizer.json: not JSON"));
  }
  const std::string deep(100'000, '[');
  CHECK(has(refusal({{"tokenizer.json", "{\"model\":" + deep}}), "nested deeper"));
}

TEST_CASE("exec/tokenizer.json: a pattern that never ends is cut off") {
  json file = small_bpe();
  const auto with = [&](const char* pattern) {
    const json split{{"type", "Split"},
                     {"pattern", {{"Regex", pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}};
    file["pre_tokenizer"] = {{"type", "Sequence"},
                             {"pretokenizers", {split, small_bpe()["pre_tokenizer"]}}};
    return load(file);
  };
  const std::string many(200, 'a');
  for (const char* pattern : {"(a+)+$", "(a|a)*[bc]", "(a*a*)*[bc]", "(?:a?){60}[bc]"}) {
    CAPTURE(pattern);
    const std::string error = error_of([&] {
      const auto tokenizer = with(pattern);
      const auto ids = tokenizer->encode(many + "!");
    });
    CAPTURE(error);
    CHECK(has(error, "pattern"));
  }
  CHECK(has(error_of([&] { const auto t = with(R"(\C)"); }), "refused"));
  CHECK(has(error_of([&] { const auto t = with("(((a{1000}){1000}){1000})"); }), "refused"));
  // Empty matches cut, and lose nothing.
  CHECK(with("x*")->encode("abc") == Ids{97, 98, 99});
  CHECK(decode(*with("(?=b)"), with("(?=b)")->encode("ab\xC3\xA9")) == "ab\xC3\xA9");
}

TEST_CASE("exec/tokenizer: the small files of a folder are checked") {
  const std::string good = small_bpe().dump();
  const auto refused = [&](const char* name, const char* text) {
    return refusal({{"tokenizer.json", good}, {name, text}});
  };
  struct Case {
    const char* file;
    const char* text;
    const char* said;
  };
  for (const Case& c : {
           Case{"tokenizer_config.json", "[]", "expected a JSON object"},
           Case{"tokenizer_config.json", R"({"add_bos_token": 1})", "true or false"},
           Case{"tokenizer_config.json", R"({"add_bos_token": true})", "has no bos_token"},
           Case{"tokenizer_config.json", R"({"bos_token": 5})", "a string"},
           Case{"tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "y"}}})",
                "token ids, not \"x\""},
           Case{"tokenizer_config.json", R"({"added_tokens_decoder": {"-1": {"content": "y"}}})",
                "token ids, not \"-1\""},
           Case{"tokenizer_config.json", R"({"added_tokens_decoder": {"7": {"content": "<end>"}}})",
                "has id 258, expected that of tokenizer_config.json, 7"},
           Case{"tokenizer_config.json", R"({"added_tokens_decoder": {"300": {"content": "<y>"}}})",
                "expected less than the vocabulary of the model"},
           Case{"tokenizer_config.json", R"({"word_tokenizer_type": "mecab"})",
                "unknown field \"word_tokenizer_type\""},
           Case{"tokenizer_config.json", R"({"do_basic_tokenize": false})", "expected true"},
           Case{"tokenizer_config.json", R"({"split_special_tokens": true})", "--raw-prompt"},
           Case{"tokenizer_config.json", R"({"never_split": ["a"]})", "'never_split' is an array"},
           Case{"tokenizer_config.json", R"({"sp_model_kwargs": {"alpha": 0.1}})", "expected none"},
           Case{"tokenizer_config.json", R"({"tokenizer_class": "BloomTokenizerFast"})",
                "tokenizer_class is \"BloomTokenizerFast\", which may read tokenizer.json"},
           Case{"config.json", R"({"tokenizer_class": "RobertaTokenizer"})",
                "config.json: tokenizer_class is \"RobertaTokenizer\""},
           Case{"tokenizer_config.json", R"({"add_prefix_space": true})",
                "add_prefix_space is false, expected the same"},
           Case{"added_tokens.json", R"({"y": -3})", "an integer from 0"},
           Case{"generation_config.json", R"({"eos_token_id": "2"})", "an integer from 0"},
           Case{"generation_config.json", R"({"eos_token_id": [2, -1]})", "an integer from 0"},
           Case{"special_tokens_map.json", R"({"additional_special_tokens": "x"})", "an array"},
       }) {
    CAPTURE(c.text);
    const std::string error = refused(c.file, c.text);
    CAPTURE(error);
    CHECK(has(error, c.said));
  }
}

TEST_CASE("exec/tokenizer: vocabularies of other kinds are not taken for bytes") {
  for (const char* alone : {"vocab.json", "merges.txt", "tekken.json", "tokenizer_config.json",
                            "special_tokens_map.json", "added_tokens.json"}) {
    CAPTURE(alone);
    CHECK(has(refusal({{alone, "{}"}}), std::string(alone) + ": belongs to a vocabulary"));
  }
}

TEST_CASE("exec/tokenizer.model: tiktoken's file of that name is passed over, or named alone") {
  // As in the first folders of Llama 3.
  const std::string tiktoken = "IQ== 0\nIg== 1\nIyM= 2\r\n";
  const testing::TemporaryFolder folder;
  testing::write_text(folder.path() / "tokenizer.model", tiktoken);
  testing::write_text(folder.path() / "tokenizer.json", small_bpe().dump());
  CHECK(load(folder)->encode("abc") == Ids{257});
  for (const std::string& alone : {tiktoken, std::string("IQ== 0"), std::string("IQ== 0\r\n")})
    CHECK(has(refusal({{"tokenizer.model", alone}}), "tokenizer.model: has tiktoken's lines"));
  // What is neither is damaged, and not passed over.
  for (const char* text : {"", "IQ== x\n", "I!== 0\n", " 0\n", "IQ==\n", "IQ= 0\n"}) {
    CAPTURE(text);
    const std::string error =
        refusal({{"tokenizer.model", text}, {"tokenizer.json", small_bpe().dump()}});
    CHECK(has(error, "tokenizer.model: "));
    CHECK(!has(error, "tiktoken"));
  }
}

TEST_CASE("exec/tokenizer.json: bytes of unwritten text may be absent, and are refused then") {
  json file = small_bpe();
  for (const int byte : {11, 0xC0, 0xF1, 0xF5})
    file["model"]["vocab"].erase(to_utf8(letter_of(static_cast<unsigned char>(byte))));
  CHECK(load(file)->encode("abc\n") == Ids{257, '\n'});
  CHECK(has(error_of([&] { (void)load(file)->encode("a\vb"); }), "U+000B, for whose byte 11"));
  CHECK(has(error_of([&] { (void)load(file)->encode("\U00040000"); }), "whose byte 241"));
}

TEST_CASE("exec/vocab.json and merges.txt: damaged ones are refused") {
  const auto with = [](const std::string& vocabulary, const std::string& merges) {
    return refusal({{"vocab.json", vocabulary}, {"merges.txt", merges}});
  };
  CHECK(has(with("{}", ""), "vocab.json: the document is an object"));
  CHECK(has(with("[]", ""), "vocab.json: the document is"));
  CHECK(has(with(R"({"a": 0})", ""), "no token for byte 9"));
  CHECK(has(with(R"({"a": 0, "b": 0})", ""), "have the same id 0"));
  CHECK(has(with(R"({"a": 0})", "#version: 0.2\na b"), "merge 0 names token \"b\""));
  for (const char* line : {"ab", " b", "a ", "a \xff"}) {
    CAPTURE(line);
    CHECK(
        has(with(R"({"a": 0})", std::string("#version: 0.2\n\n") + line), "merges.txt: line 3: "));
  }
}

TEST_CASE("exec/vocab.txt: damaged ones are refused") {
  CHECK(has(refusal({{"vocab.txt", ""}}), "no token \"[UNK]\", expected one"));
  CHECK(has(refusal({{"vocab.txt", "[UNK]\n[CLS]\n"}}), "no token \"[SEP]\""));
  CHECK(has(refusal({{"vocab.txt", "[UNK]\n\xff\n"}}), "vocab.txt: line 2: "));
  CHECK(has(refusal({{"vocab.txt", "[UNK]\n[CLS]\n[SEP]\n"},
                     {"tokenizer_config.json", R"({"cls_token": "<s>"})"}}),
            "no token \"<s>\""));
  const char* const few = "[UNK]\n[CLS]\n[SEP]\n";
  for (const auto& [settings, said] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"added_tokens_decoder": {"7": {"content": "[CLS]"}}})", "has id 1, expected id 7"},
           {R"({"added_tokens_decoder": {"1": {"content": "[X]"}}})", "is not on line 2"},
           {R"({"tokenizer_class": "BertJapaneseTokenizer"})", "which may read vocab.txt"},
           {R"({"subword_tokenizer_type": "character"})", "unknown field"}}) {
    CAPTURE(settings);
    CHECK(has(refusal({{"vocab.txt", few}, {"tokenizer_config.json", settings}}), said));
  }
  for (const auto& [normalizer, said] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"type": "BertNormalizer", "lowercase": false})", "'normalizer.lowercase' is false"},
           {R"({"type": "BertNormalizer", "strip_accents": false})", "expected true, as"},
           {R"({"type": "BertNormalizer", "handle_chinese_chars": false})", "expected true, as"},
           {R"({"type": "NFC"})", "expected \"BertNormalizer\""},
           {"null", "with a normalizer"}}) {
    CAPTURE(normalizer);
    CHECK(has(refusal({{"vocab.txt", few},
                       {"tokenizer.json", R"({"normalizer": )" + std::string(normalizer) + "}"}}),
              said));
  }
  std::string many = few;
  for (int i = 0; i < 1000; ++i) many += "word" + std::to_string(i) + "\n";
  CHECK(has(refusal({{"vocab.txt", many}}), "expected less than the vocabulary of the model"));
}

TEST_CASE("exec/tokenizer.model: a small one, and tokens that the folder adds") {
  const testing::TemporaryFolder folder;
  testing::write_text(folder.path() / "tokenizer.model", to_bytes(small_pieces()));
  CHECK(load(folder)->encode("a a</s>a") == Ids{1, 5, 5, 2, 4});
  CHECK(load(folder)->eos_tokens().size() == 1);
  testing::write_text(folder.path() / "added_tokens.json", R"({"<tool>": 6})");
  testing::write_text(folder.path() / "generation_config.json", R"({"eos_token_id": [6, 2]})");
  testing::write_text(folder.path() / "tokenizer_config.json",
                      R"({"add_bos_token": false, "add_eos_token": true})");
  CHECK(load(folder)->encode("<tool>a") == Ids{6, 4, 2});
  // Settings that change nothing, and one that does.
  testing::write_text(folder.path() / "tokenizer_config.json",
                      R"({"tokenizer_class": "LlamaTokenizerFast", "model_max_length": 1e30,
                          "chat_template": "x", "image_token": "<tool>", "sp_model_kwargs": {},
                          "add_prefix_space": true})");
  const Ids with_space = load(folder)->encode("a a");
  CHECK(with_space == Ids{1, 5, 5});
  testing::write_text(folder.path() / "tokenizer_config.json", R"({"add_prefix_space": false})");
  CHECK(load(folder)->encode("a a") == Ids{1, 4, 5});
  testing::write_text(folder.path() / "tokenizer_config.json",
                      R"({"add_bos_token": false, "add_eos_token": true})");
  CHECK(load(folder)->eos_tokens().size() == 2);
  CHECK(load(folder)->eos_tokens().back() == 6);
  CHECK(load(folder)->piece(6) == "<tool>");
  testing::write_text(folder.path() / "special_tokens_map.json",
                      R"({"additional_special_tokens": ["<tool>"]})");
  CHECK(load(folder)->piece(6).empty());
  CHECK(has(error_of([&] { const auto t = load(folder, 6); }),
            "token \"<tool>\" has id 6, expected less than the vocabulary of the model, 6"));
  CHECK(has(error_of([&] { const auto t = load(folder, 5); }), "has id 5"));
  testing::write_text(folder.path() / "added_tokens.json", R"({"<tool>": 4})");
  CHECK(has(error_of([&] { const auto t = load(folder); }), "token 4 is \"a\", expected"));
}

TEST_CASE("exec/tokenizer.model: what it writes it reads") {
  SentencePieceModel model = small_pieces();
  model.unk_surface = "?";
  model.bos_piece = "<x>";
  model.add_dummy_prefix = false;
  model.remove_extra_whitespaces = false;
  const SentencePieceModel again = parse_sentencepiece(to_bytes(model), "again");
  CHECK(to_bytes(again) == to_bytes(model));
  CHECK(again.pieces.size() == 6);
  CHECK_FALSE(again.add_dummy_prefix);
}

TEST_CASE("exec/tokenizer.model: contradictions are found before SentencePiece sees them") {
  using Change = std::function<void(SentencePieceModel&)>;
  struct Case {
    Change change;
    const char* said;
  };
  using Kind = SentencePieceModel::Kind;
  const std::string zeros(1024, '\0');
  for (const Case& c : std::vector<Case>{
           {[](auto& m) { m.pieces.clear(); }, "no pieces"},
           {[](auto& m) { m.pieces[4].text = ""; }, "piece 4 is empty"},
           {[](auto& m) { m.pieces[4].text = "<s>"; }, "which came before"},
           {[](auto& m) { m.pieces[4].text = "\xFF"; }, "expected UTF-8"},
           {[](auto& m) { m.pieces[4].text = std::string("a\0b", 3); }, "without NUL"},
           {[](auto& m) { m.pieces[4].text = std::string(70'000, 'x'); }, "expected UTF-8 of at"},
           {[](auto& m) { m.pieces[4].score = std::numeric_limits<float>::quiet_NaN(); },
            "no finite score"},
           {[](auto& m) { m.pieces[4].kind = static_cast<Kind>(0); }, "kind 0"},
           {[](auto& m) { m.pieces[4].kind = static_cast<Kind>(7); }, "at most 6"},
           {[](auto& m) { m.pieces[0].kind = Kind::control; }, "0 pieces for unknown"},
           {[](auto& m) { m.pieces[4].kind = Kind::unknown; }, "2 pieces for unknown"},
           {[](auto& m) { m.byte_fallback = true; }, "0 byte pieces, expected 256"},
           {[](auto& m) {
              m.pieces[4] = {"<0x41>", 0.0F, Kind::byte};
            },
            "1 byte pieces"},
           {[](auto& m) {
              m.pieces[4] = {"<0xZZ>", 0.0F, Kind::byte};
            },
            "<0x00> to <0xFF>"},
           {[](auto& m) { m.algorithm = static_cast<SentencePieceModel::Algorithm>(9); },
            "at most 4"},
           {[](auto& m) { m.space_as_suffix = true; }, "marks the ends of words"},
           {[](auto& m) { m.charsmap = "abc"; }, "end early"},
           {[](auto& m) { m.charsmap = std::string("\xFF\xFF\xFF\xFF", 4); }, "end early"},
           {[&](auto& m) { m.charsmap = std::string("\x04\0\0\0", 4) + zeros; },
            "lead outside their table"},
           {[&](auto& m) { m.charsmap = std::string("\0\x04\0\0", 4) + zeros + "x"; },
            "unfinished replacement"},
           {[&](auto& m) {
              // Byte 1 leads from the root to the root, whose value is then one that is read.
              std::string units = zeros;
              units.replace(0, 8, std::string("\x01\x05\0\0\xFF\xFF\xFF\x7F", 8));
              m.charsmap = std::string("\0\x04\0\0", 4) + units + std::string(1, '\0');
            },
            "lead outside the replacements"},
       }) {
    SentencePieceModel model = small_pieces();
    c.change(model);
    const std::string error = refusal({{"tokenizer.model", to_bytes(model)}});
    CAPTURE(error);
    CHECK(has(error, c.said));
    CHECK(has(error, "tokenizer.model: "));
  }
}

TEST_CASE("exec/tokenizer.model: no beginning of a file is taken for the whole") {
  const std::string bytes = to_bytes(small_pieces());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    const std::string error = refusal({{"tokenizer.model", bytes.substr(0, size)}});
    CHECK(has(error, "tokenizer.model: "));
    CHECK(has(error, "the file is damaged or of another kind"));
  }
}

TEST_CASE("exec/added tokens: the leftmost, of those the longest, neighbours are looked at") {
  const AddedTokens tokens({{.text = "<a>", .id = 1},
                            {.text = "<a>b", .id = 2},
                            {.text = "word", .id = 3, .single_word = true},
                            {.text = "<l>", .id = 4, .lstrip = true},
                            {.text = "<r>", .id = 5, .rstrip = true},
                            {.text = "", .id = 6}});
  const auto parts = [&](std::string_view text) {
    std::string out;
    for (const Fragment& f : tokens.split(text)) {
      out += f.id < 0 ? "[" + std::string(f.text) + "]" : std::to_string(f.id);
    }
    return out;
  };
  CHECK(parts("").empty());
  CHECK(parts("<a>") == "1");
  CHECK(parts("x<a>b<a>c") == "[x]21[c]");
  CHECK(parts("word words word\xC3\xA9 _word (word)") == "3[ words word\xC3\xA9 _word (]3[)]");
  CHECK(parts("a \xE3\x80\x80<l> b<r>\n c") == "[a]4[ b]5[c]");
  CHECK(parts("<r> <l>") == "54");
  CHECK(parts("<r>  <a>") == "51");
}

}  // namespace
}  // namespace tandem::exec::bad_tokenizer_files_test
