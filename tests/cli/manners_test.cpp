// What a person meets first: a run without a plan, a reader that leaves, what streaming costs.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/base/quantity_text.hpp"
#include "tests/cli/cli_program.hpp"

namespace tandem::test::manners_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A model with weights.
class Porch : public Kitchen {
 public:
  Porch() { must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"}); }
  [[nodiscard]] Json result(const std::string& name) const { return Json::parse(read(name)); }
};

Words here(const Words& more) {
  Words words{"run", "--weights", "tiny", "--cache", "cache"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("cli/run: without a plan this machine runs the model, and says the same as with one") {
  const Porch bench;
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--strategy", "local",
              "--prompt-tokens", "5", "--new-tokens", "9", "--out", "local.json", "--quiet"});
  const std::string planned =
      bench.good({"run", "local.json", "--weights", "tiny", "--prompt", "hello", "--quiet"});
  const std::string text = bench.good(
      here({"--prompt", "hello", "--new-tokens", "9", "--out", "measured.json", "--quiet"}));
  CHECK(text == planned);
  const Json result = bench.result("measured.json");
  CHECK(result["schema"] == "tandem.result/7");
  CHECK(result["plan"]["strategy"] == "local");
  CHECK(result["plan"]["platform"] == "this machine");
  CHECK(result["devices"][0]["name"] == "this machine");
  CHECK(result["metrics"]["ready_s"].get<double>() > 0.0);
  const Outcome spoken = bench.run(here({"--prompt", "hello", "--new-tokens", "1"}));
  CHECK(spoken.code == 0);
  CHECK(contains(spoken.err, "tandem: ready after "));
  CHECK(contains(spoken.err, "; 1 token, first after "));
}

TEST_CASE("cli/run: without a plan and a number of tokens, it ends where the context does") {
  const Porch bench;
  const Json config = Json::parse(bench.read("tiny.json"));
  const auto context = config["max_position_embeddings"].get<std::size_t>();
  bench.must(here({"--prompt", "hello", "--ignore-eos", "--out", "m.json", "--quiet"}));
  CHECK(bench.result("m.json")["tokens"].size() == context - 5);
  check_refused(bench, here({"--prompt", std::string(context + 1, 'x')}), 1, "the context of");
  check_refused(bench, here({"--prompt", "hello", "--new-tokens", std::to_string(context)}), 1,
                "context");
  check_refused(bench, here({}), 2, "'--prompt' or '--prompt-ids' is required");
  check_refused(bench, {"run", "--weights", "absent", "--prompt", "a"}, 1, "absent");
  check_refused(bench, {"run", "--weights", "cache", "--prompt", "a"}, 1, "cache");
}

TEST_CASE(
    "cli/run: without a plan weights that do not fit stream, in the same words, or not at all") {
  const Porch bench;
  // 75 MB of weights, of which a block has 25.
  bench.write("big.json", replaced(replaced(bench.read("tiny.json"), "\"hidden_size\": 64",
                                            "\"hidden_size\": 1024"),
                                   "\"intermediate_size\": 96", "\"intermediate_size\": 2048"));
  bench.must({"model", "random", "--config", "big.json", "--out", "big", "--quiet"});
  const Words words{"run",     "--weights", "big",          "--prompt", "hello",
                    "--cache", "cache",     "--new-tokens", "5"};
  const auto limited = [&](const std::string& limit) {
    Words all = words;
    all.insert(all.end(), {"--memory-limit", limit, "--out", "m.json"});
    return bench.run(all);
  };
  const Outcome whole = bench.run(words);
  CHECK(whole.code == 0);
  CHECK_FALSE(contains(whole.err, "stream from the disk"));
  const Outcome streamed = limited("100MiB");
  CHECK(streamed.code == 0);
  CHECK(streamed.out == whole.out);
  CHECK(contains(streamed.err, "weights stream from the disk"));
  CHECK(bench.result("m.json")["devices"][0]["bytes_loaded"].get<double>() > 25e6);
  const Outcome none = limited("50MiB");
  CHECK(none.code == 3);
  CHECK(contains(none.out, "device 'this machine': lacks "));
  CHECK(limited("much").code == 1);
  check_refused(bench, {"run", "--weights", "llama-2-7b", "--prompt", "a"}, 1,
                "llama-2-7b: a geometry without weights, expected");
  check_refused(bench, {"run", "--weights", "absent", "--prompt", "a"}, 1,
                "absent: no such model folder, GGUF file or model that comes with weights");
}

TEST_CASE("cli/run: a reader that leaves ends the run soon, without a word") {
  const Porch bench;
  bench.plan();
  // Alone, and with a worker: of 100,000 tokens a few are made.
  bench.write("long.json", replaced(bench.read("tiny.json"), "\"max_position_embeddings\": 128",
                                    "\"max_position_embeddings\": 1000000"));
  bench.must({"model", "random", "--config", "long.json", "--out", "long", "--quiet"});
  bench.must({"plan", "--platform", "pair.xml", "--model", "long.json", "--prompt-tokens", "5",
              "--new-tokens", "100000", "--out", "both.json", "--quiet"});
  for (const std::string& what : {std::string("--prompt hello --new-tokens 100000"),
                                  std::string("both.json --emulate --dilate 1")}) {
    CAPTURE(what);
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome = bench.shell(
        "{ \"$TANDEM\" run " + what +
        " --weights long --cache cache --ignore-eos --out m.json 2> said; echo $? > code; } | "
        "head -c 1");
    CHECK(outcome.code == 0);
    CHECK(outcome.out.size() == 1);
    CHECK(bench.read("code") == "141\n");
    CHECK(bench.read("said").empty());
    CHECK_FALSE(bench.has("m.json"));
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
  }
}

TEST_CASE("cli/output: a full disk ends a run soon, a closed descriptor is not given away") {
  const Porch bench;
  bench.write("long.json", replaced(bench.read("tiny.json"), "\"max_position_embeddings\": 128",
                                    "\"max_position_embeddings\": 1000000"));
  bench.must({"model", "random", "--config", "long.json", "--out", "long", "--quiet"});
  const Outcome full =
      bench.run_into("/dev/full", {"run", "--weights", "long", "--prompt", "hello", "--ignore-eos",
                                   "--new-tokens", "100000", "--cache", "cache", "--quiet"});
  CHECK(full.code == 1);
  CHECK(contains(full.err, "standard output: cannot write: No space left"));
  const Outcome closed = bench.shell(
      "\"$TANDEM\" run --weights tiny --prompt hello --new-tokens 3 --cache cache --out m.json "
      ">&-");
  CHECK(closed.code == 1);
  CHECK(contains(closed.err, "standard output: cannot write"));
  const Outcome listed = bench.shell("{ \"$TANDEM\" model list; echo $? > code; } | true");
  CHECK(listed.code == 0);
  CHECK(listed.err.empty());
}

TEST_CASE("cli/run: special tokens that are written in a prompt mean what the caller says") {
  const Kitchen bench;
  bench.write("config.json",
              replaced(bench.read("tiny.json"), "\"vocab_size\": 300", "\"vocab_size\": 700"));
  bench.must({"model", "random", "--config", "config.json", "--out", "tiny", "--quiet"});
  for (const char* folder : {"sp-bpe", "bpe-llama3"}) {
    CAPTURE(folder);
    const bool pieces = std::string(folder) == "sp-bpe";
    const char* const file = pieces ? "tokenizer.model" : "tokenizer.json";
    bench.write("tiny/" + std::string(file),
                source_file("tests/tokenizers/" + std::string(folder) + "/" + file));
    const std::string special = pieces ? "</s>" : "<|eot_id|>";
    const Words words{"--new-tokens", "1", "--quiet", "--prompt", special + "Hello"};
    const auto text = [&](const Words& more) {
      Words all = here(words);
      all.insert(all.end(), more.begin(), more.end());
      return bench.good(all);
    };
    CHECK(text({}).starts_with("Hello"));
    CHECK(text({"--raw-prompt"}).starts_with(special + "Hello"));
    // And a plan is made for as many tokens.
    const auto planned = [&](const Words& more) {
      Words all{"plan", "--platform", "pair.xml", "--model",
                "tiny", "--json",     "--prompt", special + "Hello"};
      all.insert(all.end(), more.begin(), more.end());
      return Json::parse(bench.good(all))["workload"]["prompt_tokens"].get<int>();
    };
    CHECK(planned({"--raw-prompt"}) > planned({}));
    std::filesystem::remove(bench.folder() / "tiny" / file);
  }
}

TEST_CASE("cli/plan: a fall back to streaming is said, with its cost and what would avoid it") {
  const Kitchen bench;
  bench.write("big.json", replaced(replaced(bench.read("tiny.json"), "\"hidden_size\": 64",
                                            "\"hidden_size\": 1024"),
                                   "\"intermediate_size\": 96", "\"intermediate_size\": 2048"));
  bench.write("disks.xml", replaced(replaced(bench.read("pair.xml"), "4GiB", "100MiB"),
                                    "<prop id=\"tandem:memory\"",
                                    "<prop id=\"tandem:disk_bandwidth\" value=\"100MBps\"/>"
                                    "<prop id=\"tandem:memory\""));
  const Words words{"plan",     "--platform", "disks.xml", "--model",
                    "big.json", "--strategy", "local"};
  const std::string table = bench.good(words);
  CHECK(contains(table, "no split of the weights fits the memory: they stream from disks"));
  CHECK(contains(table, "a new token takes "));
  CHECK(contains(table, ", with enough memory "));
  CHECK(contains(table, "'desk' lacks "));
  // Of one new token, too, after a prompt that leaves the context no room for another; of several
  // it is the mean that an analytic prediction has.
  const auto planned = [&](int prompt_tokens, int new_tokens) {
    Words more = words;
    more.insert(more.end(), {"--prompt-tokens", std::to_string(prompt_tokens), "--new-tokens",
                             std::to_string(new_tokens), "--out", "slow.json"});
    return bench.good(more);
  };
  const auto context = Json::parse(bench.read("big.json")).at("max_position_embeddings").get<int>();
  CHECK(contains(planned(context - 1, 1), "a new token takes "));
  const std::string cost = planned(8, 40);
  (void)bench.good({"simulate", "slow.json", "--evaluator", "analytic", "--out", "slow.result"});
  const double mean = Json::parse(bench.read("slow.result"))["metrics"]["token_latency_s"]["mean"];
  CHECK(
      contains(cost, "a new token takes " + tandem::model::to_text(tandem::model::Seconds{mean})));
  // A window that was asked for is no surprise; nor is one that is not needed.
  Words asked = words;
  asked.insert(asked.end(), {"--window", "2"});
  CHECK_FALSE(contains(bench.good(asked), "no split of the weights"));
  Words roomy = words;
  roomy[2] = "pair.xml";
  CHECK_FALSE(contains(bench.good(roomy), "no split of the weights"));
}

TEST_CASE("cli/run: an empty prompt runs where the tokenizer gives a first token") {
  const Kitchen bench;
  bench.write("config.json",
              replaced(bench.read("tiny.json"), "\"vocab_size\": 300", "\"vocab_size\": 700"));
  bench.must({"model", "random", "--config", "config.json", "--out", "tiny", "--quiet"});
  const Words empty = here({"--prompt", "", "--new-tokens", "2", "--quiet", "--out", "m.json"});
  check_refused(bench, here({"--prompt", "", "--new-tokens", "2"}), 1,
                "flag '--prompt': empty, and the model's tokenizer puts no token before a text, "
                "expected at least one token; write a prompt");
  bench.write("one.jsonl", R"({"id": "a", "arrival_s": 0, "prompt": "", "new_tokens": 2})");
  check_refused(bench,
                {"plan", "--platform", "pair.xml", "--model", "tiny", "--workload", "one.jsonl"}, 1,
                "prompt of request 'a': empty");
  bench.write("tiny/tokenizer.model", source_file("tests/tokenizers/sp-bpe/tokenizer.model"));
  std::filesystem::remove(bench.folder() / "tiny" / "tokenizer.json");
  bench.must(empty);
  bench.must(here({"--prompt=", "--new-tokens", "2", "--quiet"}));
  CHECK(Json::parse(bench.read("m.json"))["environment"]["prompt_tokens"] == "1");
  const std::string planned =
      bench.good({"plan", "--platform", "pair.xml", "--model", "tiny", "--json", "--prompt", ""});
  CHECK(Json::parse(planned)["workload"]["prompt_tokens"] == 1);
  // Where a value says what is to be done, an empty one is a slip.
  check_refused(bench, here({"--prompt", "a", "--out", ""}), 2, "'--out' needs a value");
}

TEST_CASE("cli/run: a cache is asked for where one is needed, not before") {
  const Porch bench;
  bench.plan();
  const std::string without = "env -u HOME -u XDG_CACHE_HOME \"$TANDEM\" ";
  const Outcome mapped =
      bench.shell(without + "run --weights tiny --prompt hello --new-tokens 1 --quiet");
  CHECK(mapped.code == 0);
  CHECK(mapped.err.empty());
  for (const char* const words : {"run plan.json --emulate --weights tiny --quiet",
                                  "worker --listen 127.0.0.1:0", "profile --model tiny"}) {
    CAPTURE(words);
    const Outcome outcome = bench.shell(without + words);
    CHECK(outcome.code == 1);
    CHECK(contains(outcome.err, "cache folder: neither XDG_CACHE_HOME nor HOME is set"));
    CHECK(contains(outcome.err, "'--cache DIR'"));
    CHECK(std::ranges::count(outcome.err, '\n') == 1);
  }
}

TEST_CASE("cli/run: a request that arrives late is waited for with a word") {
  const Porch bench;
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--strategy", "local",
              "--prompt-tokens", "8", "--new-tokens", "4", "--out", "local.json", "--quiet"});
  bench.write("late.jsonl",
              R"({"id": "late", "arrival_s": 999999, "prompt_ids": [1, 2], "new_tokens": 2})");
  // In the foreground: else `timeout` sends a second signal to the group, which ends a run at once.
  const std::string run =
      "timeout --foreground -s INT 2 \"$TANDEM\" run local.json --weights tiny --workload "
      "late.jsonl";
  const Outcome outcome = bench.shell(run);
  CHECK(contains(outcome.err, "tandem: waiting for request 'late', which arrives in 999999 s\n"));
  CHECK(contains(outcome.err, "tandem run: interrupted\n"));
  CHECK_FALSE(contains(bench.shell(run + " --quiet").err, "waiting"));
}

}  // namespace tandem::test::manners_test
