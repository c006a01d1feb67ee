// GGUF files through the program: planned, run, inspected and converted as their folders are, and
// what is refused.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli_program.hpp"

namespace {

using Json = nlohmann::json;
using tandem::test::check_refused;
using tandem::test::Kitchen;
using tandem::test::Outcome;
using tandem::test::replaced;
using Words = std::vector<std::string>;

void convert(const Kitchen& bench, const std::string& from, const std::string& out,
             const Words& more = {}) {
  Words words{"model", "convert", "--weights", from, "--out", out, "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  bench.must(words);
}

Words plan_words(const std::string& model, const std::string& out, const Words& more) {
  Words words{"plan", "--platform",      "pair.xml", "--model",      model, "--out",
              out,    "--prompt-tokens", "3",        "--new-tokens", "4",   "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The value of 32 bits behind `key`, where it stands in the file, is another.
std::string with_number(const std::string& file, const std::string& key, char before, char after) {
  return replaced(file, key + std::string("\4\0\0\0", 4) + before,
                  key + std::string("\4\0\0\0", 4) + after);
}

}  // namespace

TEST_CASE("cli/gguf: a file is planned and run as its folder is, whatever the strategy") {
  const Kitchen bench;
  convert(bench, "tandem-tiny", "same.gguf");
  const Json folder = Json::parse(bench.good({"model", "inspect", "tandem-tiny", "--json"}));
  Json file = Json::parse(bench.good({"model", "inspect", "same.gguf", "--json"}));
  CHECK(file["tokenizer"].is_string());
  file["tokenizer"] = folder["tokenizer"];
  CHECK(file == folder);
  std::string expected;
  for (const char* const strategy : {"local", "pipeline", "tensor", "galaxy", "sp", "csps"}) {
    CAPTURE(strategy);
    // The file has the format that the folder has to be asked for.
    bench.must(plan_words("same.gguf", "file.json", {"--strategy", strategy}));
    bench.must(
        plan_words("tandem-tiny", "folder.json", {"--strategy", strategy, "--dtype", "f16"}));
    CHECK(bench.read("file.json") == bench.read("folder.json"));
    for (const char* const weights : {"same.gguf", "tandem-tiny"}) {
      CAPTURE(weights);
      const std::string text = bench.good({"run", "file.json", "--weights", weights, "--emulate",
                                           "--pace", "nominal", "--prompt", "Once upon", "--cache",
                                           weights + std::string(".cache"), "--quiet"});
      if (expected.empty()) expected = text;
      CHECK(text == expected);
    }
  }
}

TEST_CASE("cli/gguf: plan counts the tokens of texts by the file's tokenizer, as by the folder's") {
  const Kitchen bench;
  bench.must({"model", "convert", "--weights", "tandem-tiny", "--out", "chats", "--quiet"});
  bench.write("chats/chat_template.jinja",
              "{% for m in messages %}<{{ m['role'] }}>: {{ m['content'] }}\n{% endfor %}");
  convert(bench, "chats", "chats.gguf");
  bench.write("texts.jsonl",
              R"({"id": "a", "arrival_s": 0, "prompt": "Once upon a time", "new_tokens": 2})");
  const auto planned = [&](const std::string& model, const Words& more) {
    Words words{"plan",  "--platform", "pair.xml", "--model", model,
                "--out", "plan.json",  "--dtype",  "f16",     "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    bench.must(words);
    return bench.read("plan.json");
  };
  for (const Words& more :
       {Words{"--prompt", "Hello", "--new-tokens", "2"},
        Words{"--prompt", "Hello", "--chat", "--system", "Be brief.", "--new-tokens", "2"},
        Words{"--workload", "texts.jsonl"}}) {
    CAPTURE(more[1]);
    CHECK(planned("chats.gguf", more) == planned("chats", more));
  }
  const Json plan = Json::parse(planned("chats.gguf", {"--prompt", "Hello there, you"}));
  CHECK(plan["workload"]["prompt_tokens"].get<int>() > 2);
}

TEST_CASE("cli/gguf: a file's formats are its plan's, and what a run rounds is told") {
  const Kitchen bench;
  convert(bench, "tandem-tiny", "blocks.gguf", {"--dtype", "q8_0"});
  bench.must(plan_words("blocks.gguf", "plan.json", {}));
  bench.must(plan_words("tandem-tiny", "asked.json", {"--dtype", "q8_0"}));
  CHECK(bench.read("plan.json") == bench.read("asked.json"));
  std::string first;
  for (const char* const weights : {"blocks.gguf", "tandem-tiny"}) {
    const Outcome run = bench.run({"run", "plan.json", "--weights", weights, "--emulate", "--pace",
                                   "nominal", "--prompt", "Once upon", "--cache", "cache"});
    CAPTURE(run.err);
    CHECK(run.code == 0);
    const bool rounds = run.err.find("f16 to q8_0") != std::string::npos;
    CHECK(rounds == (std::string(weights) == "tandem-tiny"));
    if (first.empty()) first = run.out;
    CHECK(run.out == first);
  }
}

TEST_CASE("cli/gguf: a model that is converted and back is the same") {
  const Kitchen bench;
  convert(bench, "tandem-tiny", "one.gguf");
  convert(bench, "one.gguf", "folder");
  convert(bench, "folder", "two.gguf");
  CHECK(bench.read("one.gguf") == bench.read("two.gguf"));
}

TEST_CASE("cli/gguf: what cannot be read, or must not be written, is refused before it is") {
  const Kitchen bench;
  convert(bench, "tandem-tiny", "good.gguf");
  const std::string good = bench.read("good.gguf");
  const auto converted = [](const std::string& out) {
    return Words{"model", "convert", "--weights", "good.gguf", "--out", out};
  };
  check_refused(bench, converted("good.gguf"), 2, "would overwrite 'good.gguf'");
  check_refused(bench, converted("part-00001-of-00002.gguf"), 1, "part of a split");
  check_refused(bench, converted("no/such/folder.gguf"), 1, "does not exist");
  // Sizes that are not those of the weights: no plan is made of them.
  struct Case {
    const char* key;
    char before;
    char after;
    const char* expected;
  };
  for (const Case& one : std::vector<Case>{
           {"llama.block_count", 4, 3, "tensor blk.3.attn_k.weight: is no weight"},
           {"llama.block_count", 4, 5, "tensor blk.4.attn_norm.weight is missing"},
           {"llama.attention.head_count", 8, 4, "blk.0.attn_q.weight: shape [256, 256]"}}) {
    CAPTURE(one.expected);
    bench.write("bad.gguf", with_number(good, one.key, one.before, one.after));
    check_refused(bench, {"model", "inspect", "bad.gguf"}, 1, one.expected);
    check_refused(bench, plan_words("bad.gguf", "no.json", {}), 1, one.expected);
    check_refused(bench, {"run", "--weights", "bad.gguf", "--prompt", "a"}, 1, one.expected);
  }
  bench.write("bad.gguf", good.substr(0, good.size() - 64));
  check_refused(bench, {"model", "inspect", "bad.gguf"}, 1, "bad.gguf");
  bench.write("m-00001-of-00002.gguf", good);
  check_refused(bench, {"model", "inspect", "m-00001-of-00002.gguf"}, 1, "split.count");
  check_refused(bench, {"model", "inspect", "m-00002-of-00002.gguf"}, 1, "");
  // A plan of another model's weights.
  bench.must(plan_words("tiny.json", "plan.json", {}));
  check_refused(bench, {"run", "plan.json", "--weights", "good.gguf", "--emulate"}, 1,
                "another model than the plan's");
}
