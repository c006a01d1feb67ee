// One request's prompt in chunks: plan, simulate and run.

#include <doctest/doctest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::prompt_chunks_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

constexpr const char* kPrompt = "a prompt of some length";

class Chunks : public Kitchen {
 public:
  Chunks() { must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"}); }
  [[nodiscard]] static Words plan_words(const Words& more) {
    Words words{"plan", "--platform",   "pair.xml", "--model", "tiny", "--prompt-tokens",
                "23",   "--new-tokens", "4"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  [[nodiscard]] Outcome run_plan(const std::string& name, const Words& more = {}) const {
    Words words{"run",       name,     "--weights", "tiny",     "--cache", "cache",
                "--emulate", "--pace", "nominal",   "--prompt", kPrompt,   "--ignore-eos"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
};

// The names that `--strategy` knows, without auto.
Words strategies(const Workbench& bench) {
  const std::string text =
      bench.run({"plan", "--platform", "pair.xml", "--model", "tiny", "--strategy", "none"}).err;
  const std::string known = "known: ";
  std::istringstream list(text.substr(text.find(known) + known.size()));
  Words names;
  for (std::string name; list >> name;) {
    if (name.ends_with(',')) name.pop_back();
    if (name != "auto") names.push_back(name);
  }
  return names;
}

}  // namespace

TEST_CASE(
    "cli/chunk: one request in chunks is reported and run like a whole one, with the same tokens") {
  const Chunks bench;
  for (const std::string strategy : {"pipeline", "tensor", "galaxy"}) {
    CAPTURE(strategy);
    bench.must(bench.plan_words({"--strategy", strategy, "--out", "whole.json", "--quiet"}));
    const std::string answer = bench.good(
        bench.plan_words({"--strategy", strategy, "--chunk", "5", "--out", "chunks.json"}));
    CHECK(answer.find("its prompt read in chunks of 5 tokens") != std::string::npos);
    CHECK(answer.find("First token after") != std::string::npos);

    const std::string simulated = bench.good({"simulate", "chunks.json"});
    CHECK(simulated.find("23 prompt and 4 new tokens in chunks of 5") != std::string::npos);
    CHECK(simulated.find("time to first token") != std::string::npos);
    CHECK(simulated.find("what the first token waits for") != std::string::npos);
    const Json result = Json::parse(bench.good({"simulate", "chunks.json", "--json"}));
    CHECK(result.at("metrics").at("interval_90").at("ttft_s").is_array());

    const Outcome whole = bench.run_plan("whole.json");
    const Outcome chunks = bench.run_plan("chunks.json", {"--out", "measured.json"});
    REQUIRE_MESSAGE(whole.code == 0, whole.err);
    REQUIRE_MESSAGE(chunks.code == 0, chunks.err);
    CHECK(chunks.out == whole.out);
    CHECK(chunks.err.find("4 tokens, first after") != std::string::npos);
    CHECK(Json::parse(bench.read("measured.json")).at("schedule").size() == 8);  // 5 and 3 steps
  }
}

TEST_CASE("cli/chunk: plan and simulate have the same memory of each device") {
  const Chunks bench;
  for (const Words& more : {Words{"--chunk", "5"}, Words{"--chunk", "whole"},
                            Words{"--samples", "3", "--chunk", "4"}}) {
    for (const std::string strategy : {"pipeline", "tensor"}) {
      CAPTURE(strategy);
      Words words = bench.plan_words({"--strategy", strategy, "--out", "plan.json", "--json"});
      words.insert(words.end(), more.begin(), more.end());
      const Json plan = Json::parse(bench.good(words));
      const Json result = Json::parse(bench.good({"simulate", "plan.json", "--json"}));
      for (std::size_t d = 0; d < result.at("devices").size(); ++d) {
        const Json& peak = result.at("devices")[d].at("peak_memory_bytes");
        CHECK(plan.at("devices")[d].at("program_bytes") == peak.at("program"));
        CHECK(plan.at("devices")[d].at("total_bytes") == peak.at("total"));
      }
    }
  }
}

TEST_CASE("cli/chunk: what is planned in chunks is simulated and run, by every strategy") {
  const Chunks bench;
  std::size_t planned = 0;
  for (const std::string& strategy : strategies(bench)) {
    CAPTURE(strategy);
    if (strategy == "spread") continue;  // reads the prompt of one request whole
    const auto plan = [&](const std::string& chunk, const std::string& file) {
      bench.must(
          bench.plan_words({"--strategy", strategy, "--chunk", chunk, "--out", file, "--quiet"}));
      return Json::parse(bench.read(file)).value("partition", "none");
    };
    CHECK(plan("5", "chunks.json") == plan("whole", "whole.json"));
    bench.must({"simulate", "chunks.json", "--out", "predicted.json", "--quiet"});
    const Outcome whole = bench.run_plan("whole.json");
    const Outcome chunks = bench.run_plan("chunks.json");
    REQUIRE_MESSAGE(whole.code == 0, whole.err);
    REQUIRE_MESSAGE(chunks.code == 0, chunks.err);
    CHECK(chunks.out == whole.out);
    ++planned;
  }
  CHECK(planned >= 6);
}

TEST_CASE("cli/chunk: a run may be longer than planned, as far as memory allows") {
  const Chunks bench;
  bench.must(
      bench.plan_words({"--strategy", "pipeline", "--chunk", "5", "--out", "p.json", "--quiet"}));
  std::string text;
  for (int i = 0; i < 8; ++i) text += "twelve chars";
  const Words more{"--new-tokens", "20", "--prompt", text};
  Words words{"run",   "p.json",    "--weights", "tiny",    "--cache",
              "cache", "--emulate", "--pace",    "nominal", "--ignore-eos"};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome chunks = bench.run(words);
  REQUIRE_MESSAGE(chunks.code == 0, chunks.err);
  CHECK(chunks.err.find("20 tokens, first after") != std::string::npos);
  bench.must(bench.plan_words({"--strategy", "pipeline", "--out", "p.json", "--quiet"}));
  CHECK(bench.run(words).out == chunks.out);
}

TEST_CASE(
    "cli/chunk: a run without a plan reads a long prompt in chunks where it must, or as asked") {
  const Kitchen bench;
  Json config = Json::parse(bench.read("tiny.json"));
  config["max_position_embeddings"] = 4096;
  bench.write("long.json", config.dump());
  bench.must({"model", "random", "--config", "long.json", "--out", "long", "--quiet"});
  std::string ids;
  for (int i = 0; i < 4000; ++i) ids += std::to_string(i % 90) + ' ';
  bench.write("ids.txt", ids);
  const Json plan = Json::parse(bench.good(
      {"plan", "--platform", "pair.xml", "--model", "long", "--strategy", "local", "--chunk",
       "whole", "--prompt-tokens", "4000", "--new-tokens", "3", "--out", "w.json", "--json"}));
  const auto whole_bytes = plan.at("devices").at(0).at("total_bytes").get<double>();
  const std::string less = std::to_string(static_cast<std::int64_t>(whole_bytes) - (1 << 20)) + "B";
  const auto here = [&](const Words& more) {
    Words words{"run",     "--weights",    "long", "--cache",      "cache", "--prompt-ids",
                "ids.txt", "--new-tokens", "3",    "--ignore-eos", "--out", "m.json"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = bench.run(words);
    CHECK_MESSAGE(outcome.code == 0, outcome.out << outcome.err);
    return std::pair(outcome.out,
                     Json::parse(bench.read("m.json")).at("environment").value("chunk", "whole"));
  };
  const auto [text, reading] = here({});
  CHECK(reading == "whole");
  CHECK(here({"--chunk", "300"}) == std::pair(text, std::string("300")));
  CHECK(here({"--memory-limit", less}) == std::pair(text, std::string("512")));
  check_refused(bench,
                {"run", "--weights", "long", "--prompt", "a", "--logits", "l.npy", "--chunk", "3"},
                2, "'--logits'");
}

TEST_CASE("cli/chunk: the bottleneck is that of the chunks, also of a workload of one request") {
  const Chunks bench;
  bench.write("w.jsonl", R"({"id": "a", "arrival_s": 0, "prompt_tokens": 60, "new_tokens": 2})");
  const Words equal{"plan",       "--platform", "pair.xml",    "--model", "tiny",
                    "--strategy", "pipeline",   "--partition", "equal"};
  const auto bottleneck = [&](const Words& more) {
    Words words = equal;
    words.insert(words.end(), more.begin(), more.end());
    const std::string text = bench.good(words);
    const std::size_t at = text.find("Bottleneck of");
    REQUIRE(at != std::string::npos);
    return text.substr(at, text.find('\n', at) - at);
  };
  const Words one{"--prompt-tokens", "60", "--new-tokens", "2"};
  const std::string chunks =
      bottleneck({"--prompt-tokens", "60", "--new-tokens", "2", "--chunk", "5"});
  CHECK(chunks != bottleneck(one));
  CHECK(bottleneck({"--workload", "w.jsonl", "--policy", "continuous", "--chunk", "5"}) == chunks);
}

TEST_CASE("cli/chunk: auto is the default, and whole prompts are planned as before") {
  const Chunks bench;
  const auto plan = [&](const Words& more) {
    Words words = bench.plan_words({"--strategy", "pipeline", "--json"});
    words.insert(words.end(), more.begin(), more.end());
    return Json::parse(bench.good(words));
  };
  const Json whole = plan({"--chunk", "whole"});
  CHECK_FALSE(whole.contains("policy"));
  CHECK(whole.at("capacity").at("rows") == 0);
  CHECK(plan({"--chunk", "23"}) == whole);
  CHECK(plan({"--chunk", "4000"}) == whole);
  const Json chunks = plan({"--chunk", "6"});
  CHECK(chunks.at("workload").at("samples") == 1);
  CHECK(chunks.at("chunk") == 6);
  CHECK(chunks.at("capacity").at("rows") == 6);
}

TEST_CASE("cli/chunk: as many chunks are in flight as the flag says, without a workload") {
  const Chunks bench;
  for (const std::string strategy : {"pipeline", "auto"}) {
    CAPTURE(strategy);
    bench.must(bench.plan_words({"--strategy", strategy, "--chunk", "5", "--in-flight", "3",
                                 "--out", "p.json", "--quiet"}));
    const Json plan = Json::parse(bench.read("p.json"));
    CHECK(plan.at("strategy") == "pipeline");
    CHECK(plan.at("in_flight") == 3);
    CHECK(plan.at("capacity").at("steps") == 3);
    bench.must({"simulate", "p.json", "--out", "predicted.json", "--quiet"});
    bench.must(bench.plan_words({"--strategy", strategy, "--chunk", "auto", "--in-flight", "2",
                                 "--out", "p.json", "--quiet"}));
    CHECK(Json::parse(bench.read("p.json")).at("capacity").at("steps") == 2);
  }
}

TEST_CASE("cli/chunk: any number of steps that is given has the work it needs, or is refused") {
  const Chunks bench;
  for (const Words& more : {Words{"--chunk", "auto"}, Words{"--chunk", "auto", "--samples", "3"}}) {
    for (int steps = 2; steps <= 12; ++steps) {
      CAPTURE(more.size());
      CAPTURE(steps);
      Words words = bench.plan_words({"--strategy", "pipeline", "--in-flight",
                                      std::to_string(steps), "--out", "p.json", "--quiet"});
      words.insert(words.end(), more.begin(), more.end());
      bench.must(words);
      CHECK(Json::parse(bench.read("p.json")).at("capacity").at("steps") == steps);
      bench.must({"simulate", "p.json", "--out", "predicted.json", "--quiet"});
    }
  }
}

// Workbench::run() gives plans '--chunk whole', a shell does not.
TEST_CASE("cli/chunk: the chunk of a workload is found by default, by the objective, and kept") {
  const Workbench bench;
  const auto planned = [&](const std::string& more) {
    const Outcome outcome = bench.shell(
        "\"$TANDEM\" plan --platform four-boxes --model llama-3.1-8b --dtype q4_0 --strategy "
        "pipeline --groups none --policy continuous --samples 8 --prompt-tokens 512 --new-tokens "
        "32 "
        "--out w.json --seconds 0 --quiet " +
        more);
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    return Json::parse(bench.read("w.json"));
  };
  const auto rate = [&](const std::string& chunk) {
    const Outcome outcome = bench.run({"simulate", "w.json", "--json"});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    const Json result = Json::parse(outcome.out);
    CHECK(result.at("environment").value("chunk", "none") == chunk);
    return result.at("metrics").at("throughput_tokens_per_s").get<double>();
  };
  const Json whole = planned("--chunk whole");
  CHECK_FALSE(whole.contains("chunk"));
  const double of_whole = rate("none");
  const Json chunked = planned("");
  REQUIRE(chunked.contains("chunk"));
  CHECK(rate(chunked.at("chunk").dump()) > 1.1 * of_whole);
  CHECK(planned("--chunk auto") == chunked);
}

TEST_CASE("cli/chunk: chunks that cannot be are refused") {
  const Chunks bench;
  for (const std::string value : {"0", "some"})
    check_refused(bench, bench.plan_words({"--strategy", "pipeline", "--chunk", value}), 1,
                  "--chunk: '" + value + "'");
  const auto refused = [&](const Words& more, const std::string& expected) {
    check_refused(bench, bench.plan_words(more), 2, expected);
  };
  refused({"--strategy", "csps", "--sp", "auto", "--chunk", "5"}, "'--chunk'");
  refused({"--strategy", "spread", "--decode-moves", "auto", "--chunk", "5"}, "'--chunk'");
  refused({"--strategy", "spread", "--chunk", "5"}, "with '--samples' or '--workload' it reads");
  refused({"--strategy", "csps", "--levels", "2", "--chunk", "5"}, "levels");
  refused({"--strategy", "pipeline", "--rounds", "2", "--chunk", "5"}, "go round");
  refused({"--strategy", "pipeline", "--window", "2", "--chunk", "5"}, "'--chunk'");
  refused({"--strategy", "tensor", "--chunk", "5", "--in-flight", "2"}, "work on one step");
  refused({"--strategy", "pipeline", "--chunk", "whole", "--in-flight", "2"}, "is one step");
  refused({"--strategy", "pipeline", "--window", "2", "--chunk", "auto", "--in-flight", "2"},
          "'--in-flight'");
  check_refused(bench,
                bench.plan_words({"--strategy", "pipeline", "--chunk", "8", "--in-flight", "4"}), 1,
                "1 request has at most 3 to do at once");
}

// Whichever would do: what is printed as a remedy fits, and what does not is not printed.
TEST_CASE("cli/chunk: a model that does not fit names chunks, devices and types that let it") {
  const Chunks bench;
  const auto refusal = [&](const Words& more) {
    Words words = bench.plan_words({"--strategy", "local"});
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = bench.run(words);
    CHECK(outcome.code == 3);
    return outcome.out;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string none = refusal({"--memory-limit", "1MiB", "--chunk", "whole"});
  CHECK(has(none, "keys and values in fewer bits (--cache-type f16)"));
  CHECK_FALSE(has(none, "it fits "));
  CHECK_FALSE(
      has(refusal({"--memory-limit", "1MiB", "--cache-type", "f16"}), "keys and values in fewer"));

  Json config = Json::parse(bench.read("tiny.json"));
  config["max_position_embeddings"] = 4096;
  bench.write("long.json", config.dump());
  const Words lengths{"plan", "--platform",   "pair.xml", "--model", "long.json", "--prompt-tokens",
                      "4000", "--new-tokens", "3"};
  const auto planned = [&](const Words& more) {
    Words words = lengths;
    words.insert(words.end(), more.begin(), more.end());
    return bench.run(words);
  };
  std::string limit;
  for (int mib = 45; mib < 90 && limit.empty(); ++mib) {
    const std::string size = std::to_string(mib) + "MiB";
    if (planned({"--strategy", "local", "--memory-limit", size, "--chunk", "64"}).code == 0)
      limit = size;
  }
  REQUIRE_FALSE(limit.empty());
  const Words whole{"--strategy", "local", "--memory-limit", limit, "--chunk", "whole"};
  CHECK(has(planned(whole).out, "it fits with the prompt in chunks (--chunk auto)"));
}

TEST_CASE("cli/chunk: a plan in chunks has no room for a whole prompt, and says so") {
  const Chunks bench;
  bench.must(
      bench.plan_words({"--strategy", "pipeline", "--chunk", "5", "--out", "p.json", "--quiet"}));
  check_refused(bench, {"simulate", "p.json", "--chunk", "whole"}, 1, "read prompts in chunks");
  check_refused(bench,
                {"run", "p.json", "--weights", "tiny", "--cache", "cache", "--emulate", "--pace",
                 "nominal", "--prompt", kPrompt, "--chunk", "whole", "--quiet"},
                1, "read prompts in chunks");
}

}  // namespace tandem::test::prompt_chunks_command_test
