// GGUF files through the program: planned, run, inspected and converted as their folders are, and
// what is refused.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::gguf_command_test {
namespace {

using Json = nlohmann::json;
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

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
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
  // Norms are F32 in a file.
  CHECK(file["stored_bytes"] > folder["stored_bytes"]);
  CHECK(file["stored_weights"] == folder["stored_weights"]);
  for (const char* const key : {"stored_bytes", "stored_formats"}) file[key] = folder[key];
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

TEST_CASE("cli/gguf: inspect tells what a file stores, tensor by tensor") {
  const Kitchen bench;
  const Json folder = Json::parse(bench.good({"model", "inspect", "tandem-tiny", "--json"}));
  const std::int64_t parameters = folder["parameters"];
  CHECK(folder["stored_bytes"] == 2 * parameters);
  CHECK(folder["stored_formats"]["f16"]["bytes"] == 2 * parameters);
  CHECK(contains(bench.good({"model", "inspect", "tandem-tiny"}), "\nmatrices         f16\n"));

  convert(bench, "tandem-tiny", "mix.gguf", {"--dtype", "q4_k_m"});
  const Json file = Json::parse(bench.good({"model", "inspect", "mix.gguf", "--json"}));
  std::int64_t bytes = 0;
  std::int64_t tensors = 0;
  for (const auto& [format, sum] : file["stored_formats"].items()) {
    bytes += sum["bytes"].get<std::int64_t>();
    tensors += sum["tensors"].get<std::int64_t>();
  }
  CHECK(file["stored_bytes"] == bytes);
  CHECK(tensors == folder["stored_formats"]["f16"]["tensors"]);
  const auto size = static_cast<std::int64_t>(bench.read("mix.gguf").size());
  CHECK(bytes < size);
  CHECK(bytes > size * 8 / 10);
  // In the words of a plan, which has the formats of its file.
  bench.must(plan_words("mix.gguf", "plan.json", {"--strategy", "local"}));
  CHECK(file["stored_weights"] == Json::parse(bench.read("plan.json"))["model"]["weights"]);
  const std::string text = bench.good({"model", "inspect", "mix.gguf"});
  CHECK(contains(text, "\nstored           "));
  CHECK(contains(text, " in " + std::to_string(tensors) + " tensors: f32 "));
  CHECK(contains(text, "\nmatrices         q4_k_m: query_key_value "));
  CHECK(contains(text, "; value q6_k in layers 2-3; down q8_0 in layers 2-3"));

  const Json geometry = Json::parse(bench.good({"model", "inspect", "tinyllama-1.1b", "--json"}));
  for (const char* const key : {"stored_bytes", "stored_formats", "stored_weights"})
    CHECK(geometry.at(key).is_null());
  CHECK_FALSE(contains(bench.good({"model", "inspect", "tinyllama-1.1b"}), "stored"));
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
  // Of a model without a tokenizer, too.
  bench.must({"model", "random", "--config", "tiny.json", "--out", "plain", "--quiet"});
  bench.write("plain/chat_template.jinja", "{{ messages[0].content }}");
  convert(bench, "plain", "plain.gguf");
  convert(bench, "plain.gguf", "again");
  CHECK(bench.read("again/chat_template.jinja") == bench.read("plain/chat_template.jinja"));
}

TEST_CASE(
    "cli/gguf: tokens beyond the vocabulary, which config.json may name, are no tokenizer's") {
  const Kitchen bench;
  // A folder of the weights and the tokenizer of tandem-tiny, whose vocabulary has 1536 tokens.
  convert(bench, "tandem-tiny", "one.gguf");
  convert(bench, "one.gguf", "folder");
  Json config = Json::parse(bench.read("folder/config.json"));
  config["bos_token_id"] = 99999;
  config["eos_token_id"] = Json::array({1536, 2, 99999});
  bench.write("folder/config.json", config.dump());
  convert(bench, "folder", "two.gguf");
  convert(bench, "two.gguf", "again");
  const Json again = Json::parse(bench.read("again/config.json"));
  CHECK(again["bos_token_id"] == config["bos_token_id"]);
  CHECK(again["eos_token_id"] == config["eos_token_id"]);
  const Words end{"--prompt", "Once upon", "--new-tokens", "3", "--quiet"};
  std::string first;
  for (const char* const weights : {"folder", "two.gguf", "again"}) {
    Words words{"run", "--weights", weights};
    words.insert(words.end(), end.begin(), end.end());
    const std::string text = bench.good(words);
    if (first.empty()) first = text;
    CHECK(text == first);
  }
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
  bench.must({"model", "inspect", "m-00001-of-00002.gguf"});  // a whole file, whatever its name
  check_refused(bench, {"model", "inspect", "m-00002-of-00002.gguf"}, 1, "");
  // A plan of another model's weights.
  bench.must(plan_words("tiny.json", "plan.json", {}));
  check_refused(bench, {"run", "plan.json", "--weights", "good.gguf", "--emulate"}, 1,
                "another model than the plan's");
}

}  // namespace tandem::test::gguf_command_test
