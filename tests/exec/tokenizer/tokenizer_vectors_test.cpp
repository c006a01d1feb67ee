// Against what independent implementations say of the same tokenizers: tests/tokenizers/.

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/tokenizer/tokenizer.hpp"
#include "exec/tokenizer/utf8.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::exec::tokenizer_vectors_test {
namespace {

using nlohmann::json;

const std::filesystem::path kFolder = testing::in_sources("tests/tokenizers");

constexpr const char* kNames[] = {
    "sp-bpe",        "sp-bpe-legacy", "sp-unigram",       "sp-unigram-bytes",  "bpe-gpt2",
    "bpe-prefix",    "bpe-llama3",    "bpe-qwen2",        "bpe-steps",         "bpe-files-gpt2",
    "bpe-files-opt", "word-piece",    "word-piece-cased", "word-piece-accents"};

struct Vectors {
  json cases;
  std::unique_ptr<Tokenizer> tokenizer;
};

Vectors load(const char* name) {
  json cases = json::parse(testing::read_all(kFolder / name / "vectors.json"));
  auto transformer = testing::small_llama();
  transformer.vocab = cases["vocab"].get<std::int64_t>();
  auto tokenizer = load_tokenizer(kFolder / name, transformer);
  return {.cases = std::move(cases), .tokenizer = std::move(tokenizer)};
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  StreamingDecoder decoder(tokenizer);
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string part = decoder.push(id);
    CHECK(valid_utf8(part) == part);
    text += part;
  }
  return text + decoder.finish();
}

TEST_CASE("exec/tokenizers: texts become the ids that an independent implementation finds") {
  for (const char* name : kNames) {
    CAPTURE(name);
    const Vectors vectors = load(name);
    for (const json& c : vectors.cases["encode"]) {
      CAPTURE(c.dump());
      const std::string text =
          c.contains("hex") ? from_hex(c["hex"].get<std::string>()) : c["text"].get<std::string>();
      CHECK(vectors.tokenizer->encode(text) == c["ids"].get<std::vector<std::int32_t>>());
    }
    CHECK(vectors.tokenizer->bos_token() == vectors.cases["bos"].get<std::int64_t>());
    const auto eos = vectors.tokenizer->eos_tokens();
    CHECK(std::vector<std::int64_t>(eos.begin(), eos.end()) ==
          vectors.cases["eos"].get<std::vector<std::int64_t>>());
  }
}

TEST_CASE("exec/tokenizers: ids become the text that an independent implementation finds") {
  for (const char* name : kNames) {
    CAPTURE(name);
    const Vectors vectors = load(name);
    for (const json& c : vectors.cases["decode"]) {
      CAPTURE(c.dump());
      const auto ids = c["ids"].get<std::vector<std::int32_t>>();
      CHECK(valid_utf8(decode(*vectors.tokenizer, ids)) == c["text"].get<std::string>());
    }
  }
}

TEST_CASE("exec/tokenizers: text that is streamed is the text of all ids, as far as printable") {
  for (const char* name : kNames) {
    CAPTURE(name);
    const Vectors vectors = load(name);
    for (const json& c : vectors.cases["decode"]) {
      CAPTURE(c.dump());
      const auto ids = c["ids"].get<std::vector<std::int32_t>>();
      std::string whole = decode(*vectors.tokenizer, ids);
      CHECK(streamed(*vectors.tokenizer, ids) == take_printable(whole, true));
    }
  }
}

}  // namespace
}  // namespace tandem::exec::tokenizer_vectors_test
