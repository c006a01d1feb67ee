// Whatever is wrong with a file or a flag costs exactly one clear line on standard error, exit code
// 1 (2 for a command line that makes no sense), nothing on standard output and no file.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::bad_input_test {
namespace {

using Words = std::vector<std::string>;

// plan.json and predicted.json: what is spoilt below.
void cook(const Kitchen& bench) {
  bench.plan();
  bench.must(
      {"simulate", "plan.json", "--out", "predicted.json", "--evaluator", "analytic", "--quiet"});
}

// A good text with its first `from` replaced by `to`, or, without `from`, `to` alone.
struct Spoilt {
  const char* name;
  std::string from;
  std::string to;
  const char* expected;  // part of the message
};

// Runs `words` with "BAD" standing for the spoilt file.
void check_spoilt(const Workbench& bench, const std::string& good, const std::string& file,
                  const Words& words, const std::vector<Spoilt>& table) {
  for (const Spoilt& bad : table) {
    CAPTURE(bad.name);
    bench.write(file, bad.from.empty() ? bad.to : replaced(good, bad.from, bad.to));
    check_refused(bench, words, 1, bad.expected);
  }
}

std::string brackets() { return std::string(200000, '['); }

}  // namespace

TEST_CASE("cli/bad input: command lines that make no sense exit with 2") {
  const Kitchen bench;
  const struct {
    Words words;
    const char* expected;
  } table[] = {
      {{}, "no command"},
      {{""}, "unknown command"},
      {{"simulat"}, "did you mean 'simulate'?"},
      {{"--frobnicate"}, "unknown command"},
      {{"--version", "x"}, "unexpected argument"},
      {{"help", "nothing"}, "unknown command"},
      {{"model"}, "no action"},
      {{"model", "lst"}, "did you mean 'list'?"},
      {{"model", "list", "extra"}, "unexpected argument 'extra'"},
      {{"model", "inspect"}, "missing argument M"},
      {{"model", "inspect", ""}, "is empty"},
      {{"model", "random", "--config", "tiny.json"}, "'--out' is required"},
      {{"platform"}, "missing argument FILE.xml"},
      {{"platform", "pair.xml", "--jso"}, "did you mean '--json'?"},
      {{"platform", "pair.xml", "-j"}, "unknown flag '-j'"},
      {{"run", "--model", "tiny"}, "did you mean '--weights M'?"},
      {{"serve", "--port", "8080"}, "did you mean '--listen HOST:PORT'?"},
      {{"worker", "--host=0.0.0.0"}, "did you mean '--listen HOST:PORT'?"},
      {{"plan", "--weights", "tiny"}, "did you mean '--model M'?"},
      {{"plan", "--output", "plan.json"}, "did you mean '--out FILE'?"},
      {{"run", "--max-tokens", "8"}, "did you mean '--new-tokens N'?"},
      {{"simulate", "--plan", "plan.json"}, "as the plan is the argument plan.json"},
      {{"platform", "pair.xml", "--json=1"}, "takes no value"},
      {{"platform", "pair.xml", "--json", "--json"}, "given twice"},
      {{"plan", "--model", "tiny.json"}, "'--platform' is required"},
      {{"plan", "--platform", "pair.xml", "--model", "tiny.json", "--windw", "3"}, "'--window'"},
      {{"plan", "--platform", "pair.xml", "--model", "tiny.json", "--window", "all", "--retain",
        "2"},
       "'--retain'"},
      {{"plan", "--platform", "pair.xml", "--model", "tiny.json", "--prompt", "a",
        "--prompt-tokens", "1"},
       "contradict"},
      {{"plan", "--platform", "pair.xml", "--model"}, "needs a value"},
      {{"plan", "--platform", "pair.xml", "--model="}, "--model"},
      {{"plan", "--platform", "pair.xml", "--model", "tiny.json", "--strategy", "local",
        "--allreduce", "star"},
       "no partial sums"},
      {{"simulate", "a.json", "b.json"}, "unexpected argument 'b.json'"},
      {{"simulate", "a.json", "--json", "--quiet"}, "contradict"},
      {{"compare", "a.json", "b.json", "--quiet"}, "would leave no result"},
      {{"profile", "--quiet"}, "leave no result"},
  };
  for (const auto& line : table) {
    CAPTURE(line.words);
    check_refused(bench, line.words, 2, line.expected);
  }
}

TEST_CASE("cli/bad input: what a plan says is no flag of the commands that take a plan") {
  const Kitchen bench;
  for (const char* const command : {"simulate", "whatif", "run", "serve", "chat"}) {
    for (const char* const flag : {"platform", "strategy", "master", "devices", "partition"}) {
      const std::string word = std::string("--") + flag;
      // Which predicts the plan on another platform.
      if (command == std::string("simulate") && word == "--platform") continue;
      check_refused(
          bench, {command, "plan.json", word, "x"}, 2,
          ("unknown flag '" + word + "', as the argument plan.json fixes it; 'tandem plan " + word +
           "' makes another plan")
              .c_str());
    }
  }
}

TEST_CASE("cli/bad input: a platform or a model in place of a plan is called what it is") {
  const Kitchen bench;
  for (const Words& words : {Words{"simulate"}, Words{"whatif"}, Words{"run", "--weights", "tiny"},
                             Words{"serve", "--weights", "tandem-tiny"}}) {
    const auto with = [&](const char* plan) {
      Words all = words;
      all.insert(all.begin() + 1, plan);
      return all;
    };
    check_refused(
        bench, with("home4"), 1,
        "argument plan.json: 'home4': a platform, expected a plan that 'tandem plan' wrote; "
        "make one with 'tandem plan --platform home4 --model M --out plan.json'");
    check_refused(bench, with("gpt2-l"), 1, "'gpt2-l': a model, expected a plan");
    check_refused(bench, with("absent.json"), 1, "'absent.json': no such file, expected a plan");
  }
}

TEST_CASE("cli/bad input: flag values exit with 1, naming flag, value and what is accepted") {
  const Kitchen bench;
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--out", "plan.json"});
  const struct {
    std::string flag;
    std::string value;
    const char* expected;
  } table[] = {
      {"--prompt-tokens", "many", "'many'"},
      {"--prompt-tokens", "0", "'0'"},
      {"--prompt-tokens", "1e2", "'1e2'"},
      {"--prompt-tokens", "99999999999999999999", "whole number"},
      {"--prompt-tokens", "129", "context"},
      {"--prompt", "hello", "has no tokenizer"},
      {"--new-tokens", "-1", "'-1'"},
      {"--new-tokens", "2.5", "'2.5'"},
      {"--strategy", "magic", "tensor"},
      {"--partition", "golden", "golden"},
      {"--partition", "1:2:3", "1:2:3"},
      {"--partition", "1:0", "sofa"},
      {"--partition", "1:-1", "1:-1"},
      {"--allreduce", "comet", "star"},
      {"--window", "0", "'0'"},
      {"--window", "-1", "'-1'"},
      {"--window", "some", "all or auto"},
      {"--window", "1.5", "'1.5'"},
      {"--window", "99999999999999999999", "whole number"},
      {"--window", "1", "device 'desk': a window streams weights from its disk"},
      {"--retain", "0", "'0'"},
      {"--retain", "-2", "'-2'"},
      {"--retain", "3", "'3'"},
      {"--release", "never", "early, late"},
      {"--memory-limit", "100", "with a unit"},
      {"--memory-limit", "-1GiB", "'-1GiB'"},
      {"--memory-limit", "0B", "flag '--memory-limit': '0B', expected more than 0 bytes"},
      {"--master", "nobody", "nobody"},
      {"--profile", "absent.json", "absent.json"},
      {"--profile", "nobody=absent.json", "nobody"},
      {"--profile", "desk=absent.json", "absent.json"},
      {"--out", "no/such/folder/plan.json", "does not exist"},
      {"--out", ".", "is a folder"},
      {"--out", "/proc/plan.json", "/proc/plan.json"},
  };
  for (const auto& line : table) {
    CAPTURE(line.flag);
    CAPTURE(line.value);
    check_refused(bench,
                  {"plan", "--platform", "pair.xml", "--model", "tiny.json", line.flag, line.value},
                  1, line.expected);
  }
  check_refused(bench, {"model", "inspect", "tiny.json", "--prompt-tokens", "129"}, 1, "'129'");
  check_refused(bench, {"model", "random", "--config", "tiny.json", "--out", "w", "--seed", "-3"},
                1, "'-3'");
  check_refused(bench, {"model", "random", "--config", "tiny.json", "--out", "w", "--dtype", "F8"},
                1, "BF16");
  check_refused(bench, {"simulate", "plan.json", "--evaluator", "oracle"}, 1, "analytic");
  check_refused(bench, {"simulate", "plan.json", "--out", "no/where.json"}, 1, "does not exist");
  check_refused(bench, {"simulate", "plan.json", "--trace", "."}, 1, "is a folder");
  check_refused(bench, {"profile", "--model", "tiny.json", "--threads", "0"}, 1, "'0'");
  check_refused(bench, {"profile", "--model", "tiny.json", "--seconds", "nan"}, 1, "'nan'");
}

TEST_CASE("cli/bad input: files that are missing or no files") {
  const Kitchen bench;
  bench.write("empty-folder/readme", "");
  check_refused(bench, {"platform", "absent.xml"}, 1, "absent.xml");
  check_refused(bench, {"platform", "empty-folder"}, 1, "empty-folder");
  check_refused(bench, {"model", "inspect", "absent"}, 1, "absent");
  check_refused(bench, {"model", "inspect", "no/such/config.json"}, 1, "no/such/config.json");
  check_refused(bench, {"model", "inspect", "empty-folder"}, 1, "config.json");
  check_refused(bench, {"simulate", "absent.json"}, 1, "absent.json");
  check_refused(bench, {"simulate", "empty-folder"}, 1, "a folder, expected a plan");
  check_refused(bench, {"simulate", "new\nline.json"}, 1, "new?line.json");
  check_refused(bench, {"compare", "absent.json", "absent.json", "--out", "c"}, 1, "absent.json");
}

TEST_CASE("cli/bad input: platforms") {
  const Kitchen bench;
  const std::string good = bench.read("pair.xml");
  check_spoilt(
      bench, good, "bad.xml", {"platform", "bad.xml"},
      {{"empty", "", "", "bad.xml"},
       {"no XML", "", "hello", "bad.xml"},
       {"binary", "", std::string("\0\1\2\377\376", 5), "bad.xml"},
       {"cut off", "</zone>", "", "bad.xml"},
       {"no zone", "", "<!DOCTYPE platform><platform version=\"4.1\"></platform>", "has no host"},
       {"other root", "", "<network/>", "platform"},
       {"routing kind", "Full", "Magic", "Magic"},
       {"twice the host", "id=\"sofa\"", "id=\"desk\"", "desk"},
       {"twice the link", "<route",
        "<link id=\"cable\" bandwidth=\"1Mbps\" latency=\"1ms\"/><route", "cable"},
       {"negative speed", "20Gf", "-20Gf", "-20Gf"},
       {"speed is a word", "20Gf", "fast", "fast"},
       {"speed missing", "speed=\"20Gf\"", "", "speed"},
       {"no cores", "speed=\"20Gf\"", "speed=\"20Gf\" core=\"0\"", "core"},
       {"negative bandwidth", "300Mbps", "-1Mbps", "-1Mbps"},
       {"bandwidth of nothing", "300Mbps", "0Mbps", "bandwidth"},
       {"latency not a number", "1ms", "nan", "nan"},
       {"latency unit", "1ms", "1parsec", "1parsec"},
       {"sharing", "SPLITDUPLEX", "GREEDY", "GREEDY"},
       {"memory without unit", "4GiB", "4", "memory"},
       {"unknown property", "tandem:memory\"", "tandem:remember\"", "tandem:remember"},
       {"slowdown of nothing", "value=\"2\"", "value=\"0\"", "slowdown"},
       {"route to nowhere", "dst=\"sofa\"", "dst=\"moon\"", "moon"},
       {"route over nothing", "<link_ctn id=\"cable\"", "<link_ctn id=\"string\"", "string"},
       {"host not connected", "<link id", "<host id=\"attic\" speed=\"1Gf\"/><link id", "attic"}});
}

TEST_CASE("cli/bad input: model geometries") {
  const Kitchen bench;
  const std::string good = bench.read("tiny.json");
  check_spoilt(
      bench, good, "bad.json", {"model", "inspect", "bad.json"},
      {{"empty", "", "", "bad.json"},
       {"no JSON", "", "layers: 2", "bad.json"},
       {"no object", "", "[1, 2]", "object"},
       {"deeply nested", "", brackets(), "bad.json"},
       {"bad UTF-8", "llama", "ll\xff\xfe", "bad.json"},
       {"unknown kind", "llama", "oracle", "oracle"},
       {"no kind", "\"model_type\"", "\"kind\"", "model_type"},
       {"no hidden size", "\"hidden_size\"", "\"size\"", "hidden_size"},
       {"word for a number", "64", "\"64\"", "hidden_size"},
       {"no whole number", "64", "64.5", "hidden_size"},
       {"no layers", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 0", "0"},
       {"negative layers", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": -2", "-2"},
       {"too many layers", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1099511627776",
        "1099511627776"},
       {"3 key/value heads of 4", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "3"},
       {"odd heads", "\"hidden_size\": 64", "\"hidden_size\": 60", "15"},
       {"vocabulary of 10^30", "300", "1e30", "vocab_size"},
       {"no vocabulary", "300", "null", "vocab_size"},
       {"unknown scaling", "\"rope_theta\": 10000.0",
        "\"rope_scaling\": {\"rope_type\": \"warp\", \"factor\": 2.0}", "warp"},
       {"a field twice", "\"vocab_size\"", "\"vocab_size\": 7, \"vocab_size\"", "twice"},
       {"an unknown field", "\"vocab_size\"", "\"alibi\": true, \"vocab_size\"", "\"alibi\""},
       {"negative theta", "10000.0", "-1", "rope_theta"}});
}

TEST_CASE("cli/bad input: an encoder generates nothing") {
  const Kitchen bench;
  for (const char* encoder : {"bert-l", "distilbert"}) {
    CAPTURE(encoder);
    check_refused(bench,
                  {"plan", "--platform", "pair.xml", "--model", encoder, "--new-tokens", "3"}, 2,
                  "which is an encoder and generates no tokens");
    const std::string sizes = bench.good({"model", "inspect", encoder, "--prompt-tokens", "3"});
    CHECK(sizes.find("encoder  ") != std::string::npos);
    CHECK(sizes.find("key/value cache") == std::string::npos);
    CHECK(bench.good({"model", "inspect", encoder, "--json"})
              .find("\"decode_flops_per_token\": null") != std::string::npos);
  }
  cook(bench);
  using Json = nlohmann::ordered_json;
  Json plan = Json::parse(bench.read("plan.json"));
  plan["model"]["config"] = Json::parse(
      R"({"model_type": "bert", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
          "intermediate_size": 96, "vocab_size": 300, "max_position_embeddings": 128})");
  bench.write("bert.json", plan.dump(2));
  check_refused(bench, {"simulate", "bert.json", "--out", "r.json"}, 1,
                "is an encoder and generates none");
}

TEST_CASE("cli/bad input: plans") {
  const Kitchen bench;
  cook(bench);
  const std::string good = bench.read("plan.json");
  check_spoilt(
      bench, good, "bad.json", {"simulate", "bad.json", "--out", "result.json"},
      {{"empty", "", "", "bad.json"},
       {"no JSON", "", "plan", "bad.json"},
       {"no object", "", "[]", "bad.json"},
       {"deeply nested", "", brackets(), "bad.json"},
       {"cut off", "", good.substr(0, good.size() / 2), "bad.json"},
       {"another schema", "tandem.plan/7", "tandem.plan/9", "tandem.plan/9"},
       {"a result", "", bench.read("predicted.json"), "a result, expected a plan"},
       {"unknown strategy", "\"strategy\": \"tensor\"", "\"strategy\": \"magic\"", "magic"},
       {"no strategy", "\"strategy\"", "\"tactics\"", "strategy"},
       {"unknown all-reduce", "\"decode\": \"star\"", "\"decode\": \"comet\"", "comet"},
       {"no workload", "\"workload\"", "\"work\"", "workload"},
       {"no prompt", "\"prompt_tokens\": 5", "\"prompt_tokens\": 0", "prompt"},
       {"longer than the context", "\"prompt_tokens\": 5", "\"prompt_tokens\": 500", "500"},
       {"huge prompt", "\"prompt_tokens\": 5", "\"prompt_tokens\": 5e300", "prompt_tokens"},
       {"no devices", "\"devices\"", "\"things\"", "devices"},
       {"a field twice", "\"master\"", "\"master\": \"sofa\", \"master\"",
        "\"master\" is given twice"},
       {"a field of a device twice", "\"cores\"", "\"cores\": 2, \"cores\"",
        "\"cores\" is given twice"},
       {"no release", "\"release\"", "\"keep\"", "release"},
       {"unknown release", "\"release\": \"early\"", "\"release\": \"soon\"", "early, late"},
       {"a negative window", "\"blocks\": 0", "\"blocks\": -1", "window.blocks"},
       {"a window that holds all", "\"blocks\": 0", "\"blocks\": 1000", "1000 blocks"},
       {"a window without a disk", "\"blocks\": 0", "\"blocks\": 1", "tandem:disk_bandwidth"},
       {"retaining without a window", "\"retain\": 0", "\"retain\": 1", "retain 1"}});
}

TEST_CASE("cli/bad input: shares of a plan that do not make up the model") {
  const Kitchen bench;
  cook(bench);
  using Json = nlohmann::ordered_json;
  const Json good = Json::parse(bench.read("plan.json"));
  const struct {
    const char* name;
    void (*spoil)(Json& plan);
  } table[] = {
      {"a device too few", [](Json& plan) { plan["devices"].erase(1); }},
      {"no list", [](Json& plan) { plan["devices"] = 3; }},
      {"a null", [](Json& plan) { plan["devices"][0] = nullptr; }},
      {"no heads", [](Json& plan) { plan["model"]["config"]["num_attention_heads"] = 0; }},
      {"a heap of layers",
       [](Json& plan) { plan["model"]["config"]["num_hidden_layers"] = 1LL << 40; }},
      {"fewer columns", [](Json& plan) { plan["model"]["config"]["intermediate_size"] = 90; }},
      {"more columns", [](Json& plan) { plan["model"]["config"]["intermediate_size"] = 99; }},
      {"no cluster", [](Json& plan) { plan.erase("cluster"); }},
      {"no model", [](Json& plan) { plan["model"] = Json::object(); }},
      {"an unknown master", [](Json& plan) { plan["master"] = "moon"; }},
      {"a master of another type", [](Json& plan) { plan["master"] = Json::array(); }},
  };
  for (const auto& bad : table) {
    CAPTURE(bad.name);
    Json plan = good;
    bad.spoil(plan);
    bench.write("bad.json", plan.dump(2));
    check_refused(bench, {"simulate", "bad.json", "--out", "result.json"}, 1, "bad.json");
  }
}

TEST_CASE("cli/bad input: profiles") {
  const Kitchen bench;
  const std::string good = bench.read("profile.json");
  check_spoilt(bench, good, "bad.json",
               {"plan", "--platform", "pair.xml", "--model", "tiny.json", "--profile", "bad.json",
                "--out", "plan.json"},
               {{"empty", "", "", "bad.json"},
                {"no JSON", "", "fast", "bad.json"},
                {"no object", "", "7", "bad.json"},
                {"another schema", "tandem.profile/3", "tandem.profile/0", "tandem.profile/0"},
                {"a kind twice", "\"attend\"", "\"attend\": {}, \"attend\"", "twice"},
                {"a kind is missing", "\"attend\"", "\"attention\"", "attend"},
                {"cut off", "", good.substr(0, good.size() / 3), "bad.json"}});
}

TEST_CASE("cli/bad input: results") {
  const Kitchen bench;
  cook(bench);
  const std::string predicted = bench.read("predicted.json");
  const std::string measured = as_measured(replaced(predicted, "\"analytic\"", "\"simgrid\""));
  bench.write("measured.json", measured);
  const Words compare{"compare", "predicted.json", "bad.json", "--out", "c", "--quiet"};
  const std::size_t digest = measured.find("\"sha256\": \"") + 11;
  check_spoilt(
      bench, measured, "bad.json", compare,
      {{"empty", "", "", "bad.json"},
       {"no JSON", "", "fine", "bad.json"},
       {"no object", "", "\"fine\"", "bad.json"},
       {"cut off", "", measured.substr(0, measured.size() / 2), "bad.json"},
       {"another schema", "tandem.result/7", "tandem.result/1", "tandem.result/1"},
       {"another plan", measured.substr(digest, 64), std::string(64, '0'), "different plans"},
       {"a prediction with a pace", "\"kind\": \"measured\"", "\"kind\": \"predicted\"", "pace"},
       {"an unknown kind", "\"kind\": \"measured\"", "\"kind\": \"dreamt\"", "dreamt"},
       {"a time twice", "\"ttft_s\"", "\"ttft_s\": 0, \"ttft_s\"", "twice"},
       {"no metrics", "\"metrics\"", "\"numbers\"", "metrics"},
       {"a word for a time", "\"ttft_s\": ", "\"ttft_s\": \"long\", \"was\": ", "ttft_s"},
       {"devices of another type", "\"devices\": [", "\"devices\": 1, \"were\": [", "devices"}});
  bench.write("taken", "");
  check_refused(bench, {"compare", "predicted.json", "measured.json", "--out", "taken"}, 1,
                "taken");
}

}  // namespace tandem::test::bad_input_test
