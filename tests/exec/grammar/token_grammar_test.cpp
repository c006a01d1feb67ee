// Masks are what trying every token gives.

#include "exec/grammar/token_grammar.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "exec/compute/logprobs.hpp"
#include "exec/compute/sampling.hpp"
#include "exec/grammar/json_schema.hpp"
#include "exec/grammar/token_grammars.hpp"
#include "exec/weights/model_folder.hpp"
#include "model/base/error.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::exec::token_grammar_test {
namespace {

using Tokens = std::vector<std::pair<std::string, std::int32_t>>;

constexpr const char* kPerson =
    R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}}, "more": {"$ref": "#"}},
        "required": ["name", "age"]})";
constexpr const char* kKinds =
    R"({"anyOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "number"}},
        "required": ["kind", "x"]}, {"type": "object", "properties": {"kind": {"enum": ["ab", "é"]},
        "y": {}}, "required": ["kind"]}, {"type": "array", "items": {"type": "null"}}]})";

// Bytes, and tokens that straddle the syntax; 0 ends a text, the last ids have no text.
Tokens straddling() {
  Tokens tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.emplace_back(std::string(1, static_cast<char>(byte)), byte + 1);
  for (const char* const text :
       {"\":{\"",     "\":",        "\": ",   "\":\"", "{\"",  "{\"name\":\"", "\",\"", "\"}",
        "}}",         "]}",         "\"]}",   "12",    "1,",   "1}",           "1,\"",  "\xC3\xA9",
        "\xC3\xA9\"", "\xA9",       "\xC3",   "a\xC3", "null", "[null",        "null]", "true,",
        "\\u",        "\\\"",       "\\\\\"", "   ",   "\n",   "\n  \"",       "ab",    "ab\"",
        "a\"}",       "\",\"x\":1", "\"\"",   "[[",    "]]",   "[{\"",         "}]",    "}}}}",
        "-1",         "1e",         ".5",     "name"})
    tokens.emplace_back(text, static_cast<std::int32_t>(tokens.size()) + 1);
  return tokens;
}

std::shared_ptr<const TokenGrammar> grammar_of(const char* schema,
                                               std::shared_ptr<const TokenTrie> trie,
                                               std::int64_t stop) {
  return std::make_shared<const TokenGrammar>(
      json_schema_grammar(std::string_view(schema), "schema"), std::move(trie),
      std::vector<std::int64_t>{stop});
}

// Walks at random and compares every mask with trying all tokens, byte by byte.
void compare(const TokenGrammar& grammar, std::mt19937& random, int steps) {
  GrammarStacks stacks;
  GrammarPlaces at = places_from(grammar.bytes(), stacks, {{grammar.bytes().start(0)}});
  const TokenTrie& trie = grammar.trie();
  TokenBits bits;
  for (int i = 0; i < steps; ++i) {
    grammar.allow(stacks, at, bits);
    std::vector<std::pair<std::int32_t, GrammarPlaces>> allowed;
    std::size_t wrong = 0;
    for (std::size_t token = 0; token < trie.vocab(); ++token) {
      const std::string bytes = trie.bytes_of(static_cast<std::int32_t>(token));
      GrammarPlaces next = at;
      for (const char byte : bytes) {
        next = places_after(grammar.bytes(), stacks, next, static_cast<unsigned char>(byte));
        if (next.dead()) break;
      }
      const bool stops =
          std::ranges::find(grammar.stop_tokens(), static_cast<std::int64_t>(token)) !=
          grammar.stop_tokens().end();
      const bool expected = stops ? at.ends : !bytes.empty() && !next.dead();
      wrong += expected != has_token(bits, token) ? 1U : 0U;
      if (expected && !stops) allowed.emplace_back(static_cast<std::int32_t>(token), next);
    }
    CHECK(wrong == 0);
    if (allowed.empty()) {
      CHECK(at.ends);
      return;
    }
    // Long tokens first, half of the time: they straddle.
    std::size_t choice = random() % allowed.size();
    if (random() % 2 == 0) {
      const auto longest = std::ranges::max_element(allowed, {}, [&](const auto& one) {
        return trie.bytes_of(one.first).size() * 1000 + random() % 2000;
      });
      choice = static_cast<std::size_t>(longest - allowed.begin());
    }
    at = allowed[choice].second;
  }
}

std::unique_ptr<Tokenizer> load(const std::string& name, std::int64_t vocab) {
  auto transformer = testing::small_llama();
  transformer.vocab = vocab;
  return load_tokenizer(testing::in_sources(name), transformer);
}

TEST_CASE("exec/grammar: masks are what trying every token gives, for tokens that straddle") {
  std::mt19937 random(7);
  const auto trie = std::make_shared<const TokenTrie>(straddling(), 320);
  for (const char* const schema : {kPerson, kKinds, "{}", kAnyObject}) {
    CAPTURE(schema);
    const auto grammar = grammar_of(schema, trie, 0);
    for (int i = 0; i < 30; ++i) compare(*grammar, random, 60);
  }
}

TEST_CASE("exec/grammar: masks are what trying every token gives, for tokenizers of models") {
  std::mt19937 random(8);
  for (const char* const name : {"scenarios/models/tandem-tiny", "tests/tokenizers/bpe-llama3",
                                 "tests/tokenizers/bpe-qwen2", "tests/tokenizers/bpe-gpt2"}) {
    CAPTURE(name);
    const auto tokenizer = load(name, 4096);
    const std::vector<std::int64_t> stops{4095};
    const auto trie = std::make_shared<const TokenTrie>(*tokenizer, stops, 4096);
    for (const char* const schema : {kPerson, kKinds, kAnyObject}) {
      CAPTURE(schema);
      const auto grammar = grammar_of(schema, trie, 4095);
      for (int i = 0; i < 3; ++i) compare(*grammar, random, 25);
    }
  }
}

TEST_CASE("exec/grammar: tokens without text and special tokens are never allowed") {
  const auto tokenizer = load("scenarios/models/tandem-tiny", 4096);
  const TokenTrie trie(*tokenizer, tokenizer->eos_tokens(), 4096);
  for (std::int32_t id = 0; id < 4096; ++id) {
    const std::string piece = tokenizer->piece(id);
    const bool stops =
        std::ranges::find(tokenizer->eos_tokens(), id) != tokenizer->eos_tokens().end();
    const bool has_text = !piece.empty() && piece != "<" + std::to_string(id) + ">" && !stops;
    CHECK(trie.bytes_of(id) == (has_text ? piece : ""));
  }
}

TEST_CASE("exec/grammar: parts are found once") {
  // Strings at any depth have one part, and what is behind them few.
  const auto trie = std::make_shared<const TokenTrie>(straddling(), 320);
  const ByteGrammar grammar = json_schema_grammar(std::string_view(kPerson), "schema");
  TokenMasks masks(grammar, *trie);
  GrammarStacks stacks;
  GrammarPlaces at = places_from(grammar, stacks, {{grammar.start(0)}});
  TokenBits bits(5);
  std::size_t before = 0;
  for (int depth = 0; depth < 20; ++depth) {
    if (depth == 3) before = masks.searches();
    for (const char byte : std::string_view("{\"name\":\"xx\",\"age\":1,\"more\":")) {
      at = places_after(grammar, stacks, at, static_cast<unsigned char>(byte));
      for (const GrammarPlace& place : at.places) masks.add(stacks, place, bits);
    }
  }
  CHECK(masks.searches() < before + before / 4);
}

TEST_CASE("exec/grammar: samplers choose among the allowed tokens only, whatever the logits") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::mt19937 random(9);
  const auto trie = std::make_shared<const TokenTrie>(straddling(), 320);
  const auto grammar = grammar_of(kPerson, trie, 0);
  std::vector<SamplingOptions> ways(7);
  for (std::size_t i = 1; i < ways.size(); ++i) ways[i].temperature = 1.5;
  ways[2].top_k = 3;
  ways[3].top_p = 0.3;
  ways[4].min_p = 0.5;
  ways[5].repetition_penalty = 1.3;
  ways[6].top_p = 0.999999;
  for (SamplingOptions& way : ways) {
    for (int run = 0; run < 20; ++run) {
      way.seed = random();
      if (way.temperature == 0.0) way.seed = 0;
      Sampler sampler(way, {}, grammar);
      TokenWalk walk(grammar);
      TokenBits bits;
      std::vector<float> logits(320);
      for (int step = 0; step < 80; ++step) {
        for (float& logit : logits) logit = static_cast<float>(random() % 1000) / 50.0F - 10.0F;
        // What is hardly possible, and what is certain, of any token.
        if (step % 3 == 0) std::ranges::fill(logits, -kInfinity);
        if (step % 5 == 0) logits[random() % logits.size()] = kInfinity;
        const std::int32_t token = sampler.sample(logits);
        walk.allow(bits);
        REQUIRE(has_token(bits, static_cast<std::size_t>(token)));
        if (token == 0) break;
        walk.push(token);
      }
    }
  }
}

TEST_CASE("exec/grammar: greedy sampling takes the likeliest allowed token") {
  const auto trie = std::make_shared<const TokenTrie>(straddling(), 320);
  Sampler sampler({}, {}, grammar_of(R"({"type": "boolean"})", trie, 0));
  std::vector<float> logits(320, 0.0F);
  logits['x' + 1] = 9.0F;
  logits['f' + 1] = 2.0F;
  logits['t' + 1] = 1.0F;
  CHECK(sampler.sample(logits) == 'f' + 1);
  for (const char byte : std::string_view("alse")) CHECK(sampler.sample(logits) == byte + 1);
  CHECK(sampler.sample(logits) == 0);
  // Log-probabilities are the model's.
  CHECK(logprobs_of(Scores(logits), 'f' + 1, 1).best.front().id == 'x' + 1);
}

TEST_CASE("exec/grammar: a vocabulary that cannot write JSON, or not end, is refused") {
  Tokens letters;
  for (int byte = 'a'; byte <= 'z'; ++byte)
    letters.emplace_back(std::string(1, static_cast<char>(byte)), byte);
  CHECK_THROWS_AS(grammar_of("{}", std::make_shared<const TokenTrie>(letters, 320), 0), Error);
  CHECK_THROWS_AS(grammar_of("{}", std::make_shared<const TokenTrie>(straddling(), 320), -1),
                  Error);
}

// `depth` levels of two alternatives with the same beginning; `front` and `back` are around each.
std::string twice(int depth, const char* front, const char* back) {
  std::string defs;
  for (int level = 0; level < depth; ++level) {
    const std::string next =
        front + std::string(R"({"$ref": "#/$defs/l)") + std::to_string(level + 1) + R"("})" + back;
    defs += R"("l)" + std::to_string(level) + R"(": {"anyOf": [)" + next + ", " + next + "]}, ";
  }
  return R"({"$ref": "#/$defs/l0", "$defs": {)" + defs + R"("l)" + std::to_string(depth) +
         R"(": {"type": "boolean"}}})";
}

TEST_CASE("exec/grammar: alternatives of alternatives take no more than they differ by") {
  const auto trie = std::make_shared<const TokenTrie>(straddling(), 320);
  CHECK_NOTHROW(grammar_of(twice(60, "", "").c_str(), trie, 0));
  CHECK_NOTHROW(
      grammar_of(twice(40, R"({"anyOf": [)", R"(, {"type": "null"}]})").c_str(), trie, 0));
}

TEST_CASE("exec/grammar: alternatives that multiply with every bracket are refused") {
  Tokens tokens = straddling();
  tokens.emplace_back(std::string(24, '['), 310);
  const auto trie = std::make_shared<const TokenTrie>(tokens, 320);
  const char* const items = R"({"type": "array", "minItems": 1, "items": )";
  CHECK_NOTHROW(grammar_of(twice(6, items, "}").c_str(), trie, 0));
  CHECK_THROWS_AS(grammar_of(twice(20, items, "}").c_str(), trie, 0), Error);
}

TEST_CASE("exec/grammar: the grammars of a model are kept by their schemas") {
  const auto tokenizer = load("scenarios/models/tandem-tiny", 4096);
  TokenGrammars grammars(*tokenizer, {2}, 4096);
  const auto first = grammars.of_schema(kPerson, "schema");
  CHECK(grammars.of_schema(kAnyObject, "schema") != first);
  CHECK(grammars.of_schema(kPerson, "schema") == first);
  for (int i = 0; i < 20; ++i)
    static_cast<void>(grammars.of_schema(R"({"const": )" + std::to_string(i) + "}", "schema"));
  CHECK(grammars.of_schema(kPerson, "schema") != first);
}

}  // namespace
}  // namespace tandem::exec::token_grammar_test
