// A workload of many requests: planned, predicted, run, compared and replayed, as a person would.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::served_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

constexpr const char* kRequests =
    R"({"id": "a", "arrival_s": 0, "prompt": "hello", "new_tokens": 6})"
    "\n"
    R"({"id": "b", "arrival_s": 0.01, "prompt_ids": [1, 2, 3], "new_tokens": 4, "ignore_eos": true})"
    "\n"
    R"({"id": "c", "arrival_s": 0.01, "prompt": "good day", "new_tokens": 5, "temperature": 0.7})"
    "\n";

// A model with weights, and a workload with a plan.
class Counter : public Kitchen {
 public:
  Counter() {
    must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
    write("requests.jsonl", kRequests);
    must({"plan", "--platform", "pair.xml", "--model", "tiny", "--workload", "requests.jsonl",
          "--out", "served.json", "--quiet"});
  }
  [[nodiscard]] Json result(const std::string& name) const { return Json::parse(read(name)); }
};

Words simulate(const Words& more) {
  Words words{"simulate", "served.json"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words run(const Words& more) {
  Words words{"run",   "served.json", "--weights", "tiny",   "--cache",
              "cache", "--emulate",   "--pace",    "nominal"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("cli/served: requests are planned for, predicted, run, compared and replayed") {
  const Counter bench;
  for (const char* const policy : {"sequential", "static", "continuous"}) {
    CAPTURE(policy);
    const Words how{"--workload", "requests.jsonl", "--policy", policy, "--quiet", "--out"};
    Words words = simulate(how);
    words.insert(words.end(), {"predicted.json", "--tokenizer", "tiny"});
    bench.must(words);
    words = run(how);
    words.emplace_back("measured.json");
    const std::string text = bench.good(words);
    for (const char* const header : {"[a]\n", "[b]\n", "[c]\n"})
      CHECK(text.find(header) != std::string::npos);

    const Json predicted = bench.result("predicted.json");
    const Json measured = bench.result("measured.json");
    REQUIRE(measured["requests"].size() == 3);
    for (std::size_t r = 0; r < 3; ++r) {
      CHECK(measured["requests"][r]["id"] == predicted["requests"][r]["id"]);
      CHECK(predicted["requests"][r]["tokens"].is_null());
    }
    CHECK(measured["requests"][1]["tokens"].size() == 4);
    CHECK(measured["environment"]["policy"] == policy);
    CHECK(measured["metrics"]["throughput_tokens_per_s"].get<double>() > 0.0);
    bench.must(simulate({"--schedule", "measured.json", "--quiet", "--out", "replayed.json"}));
    const Json replayed = bench.result("replayed.json");
    CHECK(replayed["schedule"].size() == measured["schedule"].size());
    // The same steps are announced with the same bytes.
    for (const char* const key : {"announcements", "announcement_bytes"}) {
      CAPTURE(key);
      CHECK(replayed["environment"][key] == measured["environment"][key]);
    }
    CHECK(measured["environment"]["announcement_bytes"] != "0");
    check_refused(bench, simulate({"--schedule", "predicted.json"}), 1, "'kind' is \"predicted\"");
    const std::string table =
        bench.good({"compare", "replayed.json", "measured.json", "--out", "compared"});
    CHECK(table.find("b token latency p50") != std::string::npos);
    CHECK(measured["weights_sha256"].is_string());
    CHECK(replayed["weights_sha256"] == measured["weights_sha256"]);
    CHECK(predicted["weights_sha256"].is_null());
  }
}

TEST_CASE("cli/served: results of different policies or chunks are not compared") {
  const Counter bench;
  static_cast<void>(bench.good(run({"--workload", "requests.jsonl", "--policy", "static", "--quiet",
                                    "--out", "measured.json"})));
  bench.must(simulate({"--workload", "requests.jsonl", "--tokenizer", "tiny", "--quiet", "--out",
                       "continuous.json"}));
  check_refused(bench, {"compare", "continuous.json", "measured.json", "--out", "compared"}, 1,
                "policy continuous was predicted and static was replayed");
  bench.must(simulate({"--workload", "requests.jsonl", "--tokenizer", "tiny", "--quiet", "--policy",
                       "static", "--chunk", "2", "--out", "chunks.json"}));
  check_refused(bench, {"compare", "chunks.json", "measured.json", "--out", "compared"}, 1,
                "chunk 2 was predicted and none was replayed");
}

TEST_CASE("cli/served: a plan for one request serves many one by one") {
  const Counter bench;
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny", "--prompt-tokens", "20",
              "--new-tokens", "8", "--out", "served.json", "--quiet"});
  bench.write("counts.jsonl",
              R"({"id": "a", "arrival_s": 0, "prompt_tokens": 9, "new_tokens": 6})"
              "\n"
              R"({"id": "b", "arrival_s": 0, "prompt_tokens": 20, "new_tokens": 8})");
  bench.must(simulate({"--workload", "counts.jsonl", "--quiet", "--out", "r.json"}));
  const Json result = bench.result("r.json");
  for (const Json& step : result["schedule"]) CHECK(step["segments"].size() == 1);
  bench.write("long.jsonl",
              R"({"id": "long", "arrival_s": 0, "prompt_tokens": 21, "new_tokens": 6})");
  check_refused(bench, simulate({"--workload", "long.jsonl"}), 1, "request 'long': needs steps of");
}

TEST_CASE("cli/served: times of one request are from its arrival, however late") {
  const Kitchen bench;
  const auto planned = [&](const std::string& arrival) {
    bench.write("one.jsonl", R"({"id": "a", "arrival_s": )" + arrival +
                                 R"(, "prompt_tokens": 40, "new_tokens": 8})" + "\n");
    const Words words{"plan",  "--platform", "pair.xml", "--model",    "tiny.json", "--strategy",
                      "local", "--out",      "p.json",   "--workload", "one.jsonl"};
    Words json = words;
    json.emplace_back("--json");
    const std::string text = bench.good(words);
    const std::size_t from = text.find("First token after");
    REQUIRE(from != std::string::npos);
    return std::pair(Json::parse(bench.good(json)).at("predicted"),
                     text.substr(from, text.find('\n', from) - from));
  };
  const auto soon = planned("0");
  const auto late = planned("5");
  CHECK(soon.second == late.second);
  for (const char* const key : {"ttft_s", "request_s"})
    CHECK(late.first.at(key).get<double>() ==
          doctest::Approx(soon.first.at(key).get<double>()).epsilon(1e-9));
  for (const std::size_t end : {0U, 1U})
    CHECK(late.first.at("interval_90").at("request_s").at(end).get<double>() ==
          doctest::Approx(soon.first.at("interval_90").at("request_s").at(end).get<double>())
              .epsilon(1e-9));
}

TEST_CASE("cli/served: requests of token ids need no tokenizer, an empty text is named") {
  const Counter bench;
  std::string config = bench.read("tiny.json");
  const std::string vocabulary = "\"vocab_size\": ";
  const std::size_t at = config.find(vocabulary) + vocabulary.size();
  config.replace(at, config.find_first_of(",\n", at) - at, "40");  // no byte is a token then
  bench.write("few.json", config);
  bench.must({"model", "random", "--config", "few.json", "--out", "few", "--quiet"});
  bench.write("ids.jsonl", R"({"id": "a", "arrival_s": 0, "prompt_ids": [1, 2], "new_tokens": 2})");
  bench.must({"plan", "--platform", "pair.xml", "--model", "few", "--workload", "ids.jsonl",
              "--out", "few-plan.json", "--quiet"});
  const Outcome done =
      bench.run({"run", "few-plan.json", "--weights", "few", "--cache", "cache", "--emulate",
                 "--pace", "nominal", "--workload", "ids.jsonl", "--quiet"});
  CHECK(done.code == 0);
  bench.write("empty.jsonl", R"({"id": "a", "arrival_s": 0, "prompt": "", "new_tokens": 2})");
  check_refused(bench, simulate({"--workload", "empty.jsonl", "--tokenizer", "tiny"}), 1,
                "prompt of request 'a': empty, and the model's tokenizer puts no token");
}

TEST_CASE("cli/served: a plan that streams its head is refused for prompts in chunks") {
  const Counter bench;
  std::string platform = bench.read("pair.xml");
  const std::string memory = R"(<prop id="tandem:memory" )";
  for (std::size_t at = platform.find(memory); at != std::string::npos;
       at = platform.find(memory, at + 80))
    platform.insert(at, R"(<prop id="tandem:disk_bandwidth" value="200MBps"/>)");
  bench.write("disks.xml", platform);
  const Words plan{"plan",           "--platform", "disks.xml", "--model", "tiny",  "--workload",
                   "requests.jsonl", "--quiet",    "--window",  "1",       "--out", "streams.json"};
  const auto chunks_of = [&](const char* rows) {
    Words words = plan;
    words.insert(words.end(), {"--chunk", rows});
    return words;
  };
  bench.must(chunks_of("8"));  // no prompt is longer
  check_refused(bench, chunks_of("2"), 1, "streams the LM head");
}

TEST_CASE("cli/served: what does not go together, or can't be run, is refused") {
  const Counter bench;
  const Words served{"--workload", "requests.jsonl"};
  const auto with = [&](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  bench.write("others.jsonl", std::string(kRequests) + "\n");
  check_refused(bench, simulate({"--workload", "others.jsonl"}), 1,
                "give prompt_tokens, or '--tokenizer'");
  // Of what is no tokenizer every byte would count.
  for (const char* const wrong : {"absent", "llama-2-7b", "pair.xml", "."})
    check_refused(bench, simulate(with(served, {"--tokenizer", wrong})), 1,
                  "'--tokenizer': " + std::string(wrong) + ": neither a model folder nor a GGUF");
  bench.write("counted.jsonl",
              R"({"id": "a", "arrival_s": 0, "prompt_tokens": 2, "new_tokens": 2})");
  const Outcome idle = bench.run(simulate({"--workload", "counted.jsonl", "--tokenizer", "tiny"}));
  CHECK(idle.code == 0);
  CHECK(idle.err.find("no prompt of the workload is a text") != std::string::npos);
  check_refused(bench, simulate({"--tokenizer", "tiny"}), 2, "without '--workload'");
  check_refused(bench, simulate({"--schedule", "served.json"}), 1, "a plan, expected a result");
  check_refused(bench, simulate({"--workload", "requests.jsonl", "--schedule", "x.json"}), 2,
                "with '--schedule'");
  check_refused(bench, with(run(served), {"--prompt", "hi"}), 2, "with '--workload'");
  check_refused(bench, with(run(served), {"--seed", "3"}), 2, "with '--workload'");
  check_refused(bench, with(run(served), {"--policy", "lottery"}), 1, "lottery");
  check_refused(bench, {"run", "--weights", "tiny", "--workload", "requests.jsonl"}, 2,
                "without a plan");
  check_refused(bench,
                {"plan", "--platform", "pair.xml", "--model", "tiny", "--workload",
                 "requests.jsonl", "--new-tokens", "3"},
                2, "with '--workload'");
  bench.write("counts.jsonl",
              R"({"id": "a", "arrival_s": 0, "prompt_tokens": 9, "new_tokens": 6})");
  check_refused(bench, run({"--workload", "counts.jsonl"}), 1, "give prompt or prompt_ids");
  bench.must(simulate({"--workload", "counts.jsonl", "--quiet", "--out", "one.json"}));
  check_refused(bench, simulate({"--schedule", "nowhere.json"}), 1, "nowhere.json");
}

TEST_CASE("cli/served: a pipeline has several steps in flight, or as many as are wanted") {
  const Counter bench;
  const auto plan = [](const Words& more) {
    Words words{"plan",     "--platform", "pair.xml",       "--model", "tiny",       "--strategy",
                "pipeline", "--workload", "requests.jsonl", "--out",   "served.json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  bench.must(plan({"--quiet"}));
  CHECK(bench.result("served.json")["capacity"]["steps"] > 1);
  bench.must(plan({"--quiet", "--in-flight", "2"}));
  CHECK(bench.result("served.json")["capacity"]["steps"] == 2);
  const Words how{"--workload", "requests.jsonl", "--quiet", "--out"};
  Words words = simulate(how);
  words.insert(words.end(), {"predicted.json", "--tokenizer", "tiny"});
  bench.must(words);
  words = run(how);
  words.emplace_back("measured.json");
  bench.must(words);
  const Json measured = bench.result("measured.json");
  CHECK(measured["environment"]["in_flight"] == "2");
  bool overlaps = false;
  for (std::size_t s = 0; s < measured["schedule"].size(); ++s)
    overlaps = overlaps || measured["schedule"][s]["ended"] < s;
  CHECK(overlaps);
  bench.must({"compare", "predicted.json", "measured.json", "--out", "compared", "--quiet"});
  bench.must(simulate({"--schedule", "measured.json", "--quiet", "--out", "replayed.json"}));
  CHECK(bench.result("replayed.json")["schedule"].size() == measured["schedule"].size());
  // One after another, as it was not run.
  words = simulate(how);
  words.insert(words.end(), {"single.json", "--tokenizer", "tiny", "--in-flight", "1"});
  bench.must(words);
  check_refused(bench, {"compare", "single.json", "measured.json", "--out", "compared"}, 1,
                "in_flight none was predicted and 2");
  words = simulate(how);
  words.insert(words.end(), {"more.json", "--tokenizer", "tiny", "--in-flight", "3"});
  check_refused(bench, words, 1, "plan with '--in-flight 3' for at least as many requests");
  check_refused(bench, simulate({"--schedule", "measured.json", "--in-flight", "2"}), 2,
                "with '--schedule'");
  check_refused(bench, plan({"--in-flight", "2", "--policy", "sequential"}), 2,
                "one request at a time");
  check_refused(bench, plan({"--in-flight", "2", "--window", "1"}), 2, "'--in-flight 1'");
  check_refused(bench,
                {"plan", "--platform", "pair.xml", "--model", "tiny", "--workload",
                 "requests.jsonl", "--in-flight", "2"},
                2, "strategy 'pipeline'");
}

TEST_CASE("cli/served: steps in flight that are asked for are reserved, or the plan refuses") {
  const Counter bench;
  const auto samples = [](const Words& more) {
    Words words{"plan",  "--platform", "pair.xml", "--model",         "tiny",
                "--out", "alone.json", "--quiet",  "--prompt-tokens", "8"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  for (const char* const strategy : {"pipeline", "auto"}) {
    CAPTURE(strategy);
    check_refused(bench, samples({"--strategy", strategy, "--samples", "1", "--in-flight", "2"}), 1,
                  "1 request has at most 1 to do at once; plan with '--in-flight 1'");
    bench.must(samples({"--strategy", strategy, "--samples", "3", "--in-flight", "3"}));
    CHECK(bench.result("alone.json")["capacity"]["steps"] == 3);
  }
  bench.must(
      samples({"--strategy", "pipeline", "--samples", "1", "--chunk", "4", "--in-flight", "2"}));
  bench.must({"simulate", "alone.json", "--samples", "1", "--chunk", "4", "--in-flight", "2",
              "--quiet", "--out", "predicted.json"});
}

TEST_CASE("cli/served: what a plan is not for is refused before any device starts") {
  const Counter bench;
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny", "--strategy", "spread",
              "--prompt-tokens", "6", "--new-tokens", "32", "--out", "one.json", "--quiet"});
  const Outcome outcome = bench.run({"run", "one.json", "--weights", "tiny", "--emulate",
                                     "--samples", "2", "--prompt", "hello!"});
  CHECK(outcome.code == 1);
  CHECK(outcome.err.find("a server or a chat, expected the one request") != std::string::npos);
  CHECK(outcome.err.find("device") == std::string::npos);
  const auto check = [&](Words words, const std::string& why) {
    CAPTURE(why);
    words.insert(words.begin(), "run");
    words.insert(words.end(), {"--weights", "tiny", "--emulate", "--cache", "cut"});
    const Outcome refused = bench.run(words);
    CHECK(refused.code == 1);
    CAPTURE(refused.err);
    CHECK(refused.err.find(why) != std::string::npos);
    CHECK(!bench.has("cut"));  // no weights were cut for devices
  };
  const std::string text(80, 'x');
  check({"one.json", "--prompt", text}, "by which the plan parts caches");
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny", "--prompt-tokens", "6",
              "--new-tokens", "4", "--out", "one.json", "--quiet"});
  check({"one.json", "--samples", "2", "--prompt", text},
        "positions in the cache, expected at most");
  check({"one.json", "--samples", "2", "--prompt", "hello!", "--policy", "continuous",
         "--in-flight", "2"},
        "the plan reserves memory for 1");
}

TEST_CASE("cli/run: an emulated run's timeline tells what computing hides, by phase") {
  const Counter bench;
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny", "--prompt-tokens", "6", "--out",
              "one.json", "--quiet"});
  bench.must({"run", "one.json", "--weights", "tiny", "--emulate", "--allow-drift", "--ignore-eos",
              "--prompt", "hello!", "--new-tokens", "4", "--trace", "run.trace.json", "--out",
              "measured.json", "--quiet"});
  const Json all = bench.result("measured.json").at("communication");
  double phases = 0.0;
  for (const Json& one : {all, all.at("prompt"), all.at("new_tokens")}) {
    const auto total = one.at("total_s").get<double>();
    const auto hidden = one.at("hidden_s").get<double>();
    CHECK(total > 0.0);
    CHECK(hidden >= 0.0);
    CHECK(hidden <= total);
    CHECK(one.at("hidden_fraction") == doctest::Approx(hidden / total));
    if (one != all) phases += total;
  }
  // At once they count once in the whole.
  CHECK(phases >= all.at("total_s").get<double>() * (1.0 - 1e-9));
}

TEST_CASE("cli/served: samples are planned for, predicted, run and compared") {
  const Counter bench;
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny", "--strategy", "pipeline",
              "--samples", "3", "--prompt-tokens", "6", "--new-tokens", "5", "--out", "served.json",
              "--quiet"});
  CHECK(bench.result("served.json")["capacity"]["steps"] == 3);
  const Json told =
      Json::parse(bench.good({"plan", "--platform", "pair.xml", "--model", "tiny", "--strategy",
                              "pipeline", "--samples", "3", "--out", "other.json", "--json"}));
  CHECK(told["recurrent"]["samples"] == 3);
  CHECK(told["bound"]["objective"] == "throughput");
  CHECK(told["bound"]["gap_percent"] >= 0.0);
  const Words samples{"plan",       "--platform", "pair.xml",  "--model", "tiny",
                      "--strategy", "pipeline",   "--samples", "2"};
  Words words = samples;
  words.insert(words.end(), {"--objective", "request", "--quiet", "--out", "other.json"});
  bench.must(words);
  words = samples;
  words.insert(words.end(), {"--objective", "throughput", "--partition", "equal"});
  check_refused(bench, words, 2, "partition other than auto");
  check_refused(bench,
                {"plan", "--platform", "pair.xml", "--model", "tiny", "--objective", "throughput"},
                2, "is of many requests");
  CHECK(told["recurrent"]["least_samples"] >= 2);
  CHECK(told["recurrent"]["throughput_tokens_per_s"] <= told["recurrent"]["most_tokens_per_s"]);
  bench.must(simulate({"--samples", "3", "--quiet", "--out", "predicted.json"}));
  bench.must(run({"--samples", "3", "--quiet", "--out", "measured.json", "--ignore-eos", "--prompt",
                  "hello!", "--temperature", "0.8", "--seed", "5"}));
  const Json predicted = bench.result("predicted.json");
  const Json measured = bench.result("measured.json");
  for (const Json& result : {predicted, measured}) {
    REQUIRE(result["requests"].size() == 3);
    CHECK(result["requests"][2]["id"] == "s3");
    CHECK(result["environment"]["policy"] == "recurrent");
    CHECK(result["environment"]["in_flight"] == "3");
    CHECK(result["schedule"].size() == 15);
    for (const Json& step : result["schedule"]) CHECK(step["segments"].size() == 1);
  }
  // Each has a seed of its own; another run's are the same.
  CHECK(measured["requests"][0]["tokens"] != measured["requests"][1]["tokens"]);
  CHECK(measured["requests"][0]["tokens"].size() == 5);
  bench.must({"compare", "predicted.json", "measured.json", "--out", "compared", "--quiet"});

  // A plan of one request serves samples one by one; more than the plan's samples take turns.
  bench.must(simulate({"--samples", "7", "--quiet", "--out", "more.json"}));
  CHECK(bench.result("more.json")["requests"].size() == 7);
  check_refused(bench, simulate({"--samples", "3", "--workload", "requests.jsonl"}), 2,
                "'--workload' and '--samples'");
  check_refused(bench, simulate({"--samples", "3", "--raw-prompt"}), 2, "without '--workload'");
  check_refused(bench, simulate({"--samples", "0"}), 1, "from 1 to 10000");
  check_refused(bench, run({"--samples", "2", "--hidden", "h.npy"}), 2, "not an encoder");
  check_refused(bench, {"run", "--weights", "tiny", "--samples", "2"}, 2, "without a plan");
}

TEST_CASE("cli/served: chunks of the length that is predicted to be best") {
  const Counter bench;
  const Json told =
      Json::parse(bench.good({"plan", "--platform", "pair.xml", "--model", "tiny", "--strategy",
                              "pipeline", "--samples", "1", "--prompt-tokens", "40", "--new-tokens",
                              "3", "--chunk", "auto", "--out", "served.json", "--json"}));
  const std::string chunk = told["chunk"].is_null() ? "none" : told["chunk"].dump();
  bench.must(simulate({"--samples", "1", "--chunk", "auto", "--quiet", "--out", "predicted.json"}));
  CHECK(bench.result("predicted.json")["environment"]["chunk"] == chunk);
  bench.must(run(
      {"--samples", "1", "--chunk", "auto", "--quiet", "--out", "measured.json", "--ignore-eos"}));
  CHECK(bench.result("measured.json")["environment"]["chunk"] == chunk);
  bench.must({"compare", "predicted.json", "measured.json", "--out", "compared", "--quiet"});
  check_refused(bench, simulate({"--samples", "1", "--chunk", "most"}), 1, "'most'");
}

TEST_CASE("cli/served: samples and chunks go round several times, and alone through the devices") {
  const Counter bench;
  Json config = Json::parse(bench.read("tiny.json"));
  config["num_hidden_layers"] = 6;
  bench.write("deep.json", config.dump());
  bench.must({"model", "random", "--config", "deep.json", "--out", "deep", "--quiet"});
  const auto served = [&](const Words& more) {
    Words words{"plan",        "--platform",      "pair.xml",    "--model",      "deep",
                "--strategy",  "pipeline",        "--partition", "equal",        "--samples",
                "3",           "--chunk",         "2",           "--quiet",      "--out",
                "served.json", "--prompt-tokens", "5",           "--new-tokens", "4"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  bench.write("five.ids", "1 2 3 4 5");
  std::vector<Json> tokens;
  for (const char* const rounds : {"1", "2"}) {
    CAPTURE(rounds);
    bench.must(served({"--rounds", rounds}));
    const Json plan = bench.result("served.json");
    CHECK(plan["devices"][0]["layers"][0].is_array() == (rounds[0] == '2'));
    CHECK((plan["capacity"]["steps"].get<int>() == 1) == (rounds[0] == '2'));
    bench.must(simulate({"--samples", "3", "--chunk", "2", "--quiet", "--out", "predicted.json"}));
    Words words = run({"--samples", "3", "--chunk", "2", "--prompt-ids", "five.ids", "--new-tokens",
                       "4", "--ignore-eos", "--quiet", "--out", "measured.json"});
    words[3] = "deep";
    static_cast<void>(bench.good(words));
    const Json predicted = bench.result("predicted.json");
    const Json measured = bench.result("measured.json");
    REQUIRE(measured["requests"].size() == 3);
    CHECK(predicted["schedule"].size() == measured["schedule"].size());
    for (const Json& request : measured["requests"]) tokens.push_back(request["tokens"]);
  }
  REQUIRE(tokens.size() == 6);
  for (const Json& one : tokens) CHECK(one == tokens.front());
  check_refused(bench, served({"--rounds", "2", "--in-flight", "2"}), 2,
                "goes round several times");
  // Six layers cannot be five runs of each device: what is asked for is done or refused.
  check_refused(bench, served({"--groups", "desk/sofa", "--allreduce", "ring"}), 2,
                "groups of one device each ('desk/sofa')");
  check_refused(bench, served({"--rounds", "5"}), 2, "no device has more than 2 runs");
}

}  // namespace tandem::test::served_command_test
