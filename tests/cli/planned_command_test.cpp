// A plan keeps what it was made for: plan, simulate, run and compare without a flag repeated.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::planned_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

// Of very different lengths, so that a step of a whole prompt is beyond what a plan in chunks
// reserves for the mean of them.
constexpr const char* kRequests =
    R"({"id": "a", "arrival_s": 0, "prompt": "a prompt that is longer than the other ones are", "new_tokens": 3, "ignore_eos": true})"
    "\n"
    R"({"id": "b", "arrival_s": 0.01, "prompt_ids": [1, 2, 3], "new_tokens": 4, "ignore_eos": true})"
    "\n"
    R"({"id": "c", "arrival_s": 0.01, "prompt": "hello", "new_tokens": 5, "ignore_eos": true})"
    "\n";

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class Memory : public Kitchen {
 public:
  Memory() {
    must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
    write("w.jsonl", kRequests);
  }
  void plan(const Words& more, const std::string& name = "plan.json") const {
    must(joined({"plan", "--platform", "pair.xml", "--model", "tiny", "--quiet", "--out", name},
                more));
  }
  [[nodiscard]] Json json(const std::string& name) const { return Json::parse(read(name)); }
  [[nodiscard]] Json simulated(const Words& more = {},
                               const std::string& name = "plan.json") const {
    return Json::parse(good(joined({"simulate", name, "--json"}, more)));
  }
  void run_plan(const Words& more = {}, const std::string& name = "plan.json") const {
    static_cast<void>(good(run_words(more, name)));
  }
  [[nodiscard]] static Words run_words(const Words& more, const std::string& name = "plan.json") {
    return joined({"run", name, "--weights", "tiny", "--cache", "cache", "--emulate", "--pace",
                   "nominal", "--quiet", "--out", "measured.json"},
                  more);
  }
};

Words in_chunks() { return {"--workload", "w.jsonl", "--policy", "continuous", "--chunk", "8"}; }

}  // namespace

TEST_CASE("cli/planned: plan, simulate, run and compare without a flag repeated") {
  const Memory bench;
  bench.plan(in_chunks());
  const Json plan = bench.json("plan.json");
  CHECK(plan["workload"]["file"] == "w.jsonl");
  CHECK(plan["workload"]["requests"].size() == 3);
  CHECK(plan["policy"] == "continuous");
  CHECK(plan["chunk"] == 8);
  CHECK(!plan.contains("in_flight"));
  // Lengths, and no text.
  CHECK(bench.read("plan.json").find("hello") == std::string::npos);
  CHECK(bench.read("plan.json").find("prompt_ids") == std::string::npos);

  const Json predicted = bench.simulated({"--out", "predicted.json"});
  const Json flagged = bench.simulated(joined(in_chunks(), {"--tokenizer", "tiny"}));
  CHECK(predicted["requests"] == flagged["requests"]);
  CHECK(predicted["environment"] == flagged["environment"]);
  CHECK(predicted["environment"]["chunk"] == "8");
  CHECK(bench.simulated(in_chunks())["requests"] == flagged["requests"]);  // lengths are known
  bench.run_plan();
  const Json measured = bench.json("measured.json");
  REQUIRE(measured["requests"].size() == 3);
  CHECK(measured["requests"][2]["tokens"].size() == 5);
  CHECK(measured["environment"]["chunk"] == "8");
  CHECK(measured["plan"]["sha256"] == predicted["plan"]["sha256"]);
  bench.must({"compare", "predicted.json", "measured.json", "--out", "compared", "--quiet"});
  bench.must(
      {"simulate", "plan.json", "--schedule", "measured.json", "--quiet", "--out", "r.json"});
  CHECK(bench.json("r.json")["schedule"].size() == measured["schedule"].size());
}

TEST_CASE("cli/planned: a flag overrides what was planned") {
  const Memory bench;
  bench.plan(in_chunks());
  CHECK(bench.simulated({"--policy", "static"})["environment"]["policy"] == "static");
  CHECK(bench.simulated({"--policy", "static"})["environment"]["chunk"] == "8");
  CHECK(bench.simulated({"--chunk", "2"})["environment"]["chunk"] == "2");
  // Prompts that are read whole take more rows than the plan has memory for.
  check_refused(bench, {"simulate", "plan.json", "--chunk", "whole"}, 1, "needs steps of");
  check_refused(bench, {"simulate", "plan.json", "--chunk", "1000"}, 1, "needs steps of");
  // The remedy of that error is one.
  const std::string rows = bench.json("plan.json")["capacity"]["rows"].dump();
  check_refused(bench, {"simulate", "plan.json", "--chunk", "1000"}, 1, "'--chunk " + rows + "'");
  CHECK(bench.simulated({"--chunk", rows})["environment"]["chunk"] == rows);
  bench.write("other.jsonl",
              R"({"id": "z", "arrival_s": 0, "prompt_tokens": 30, "new_tokens": 2})");
  const Json other = bench.simulated({"--workload", "other.jsonl"});
  REQUIRE(other["requests"].size() == 1);
  CHECK(other["requests"][0]["id"] == "z");
  CHECK(other["environment"]["chunk"] == "8");
  CHECK(bench.simulated({"--samples", "2"})["requests"].size() == 2);
  bench.run_plan({"--samples", "2", "--prompt", "hi"});
  CHECK(bench.json("measured.json")["requests"].size() == 2);
  CHECK(bench.json("measured.json")["environment"]["policy"] == "continuous");
  check_refused(bench, bench.run_words({"--temperature", "0.5"}), 2, "give '--prompt'");
  check_refused(bench, bench.run_words({"--chat"}), 2, "with many requests");
  check_refused(bench, {"simulate", "plan.json", "--in-flight", "2"}, 1, "reserves memory for 1");
  check_refused(bench, {"simulate", "plan.json", "--tokenizer", "tiny"}, 2, "without '--workload'");
}

TEST_CASE("cli/planned: a prompt beside a planned workload runs alone, with a remark") {
  const Memory bench;
  bench.plan(in_chunks());
  Words words = bench.run_words({"--prompt", "hi", "--new-tokens", "3", "--ignore-eos"});
  std::erase(words, "--quiet");
  const Outcome done = bench.run(words);
  CHECK(done.code == 0);
  CHECK(done.err.find("made for 3 requests together, this run is one alone") != std::string::npos);
  CHECK(bench.json("measured.json")["tokens"].size() == 3);
}

TEST_CASE("cli/planned: what is of one text runs alone, whatever was planned") {
  const Memory bench;
  bench.plan({"--strategy", "pipeline", "--samples", "3", "--prompt-tokens", "6"}, "samples.json");
  bench.plan(in_chunks());
  for (const char* const name : {"samples.json", "plan.json"}) {
    bench.run_plan({"--logits", "l.npy", "--new-tokens", "2", "--ignore-eos"}, name);
    CHECK(bench.json("measured.json")["tokens"].size() == 2);
    CHECK(bench.has("l.npy"));
  }
  check_refused(bench, bench.run_words({"--samples", "1", "--logits", "l.npy"}), 2, "of one text");
}

TEST_CASE("cli/planned: passes of an encoder are predicted together, and run one by one") {
  const Memory bench;
  bench.write("bert.json", R"({"model_type": "distilbert", "n_layers": 3, "dim": 48, "n_heads": 4,
                               "hidden_dim": 100, "vocab_size": 300,
                               "max_position_embeddings": 128})");
  bench.must({"model", "random", "--config", "bert.json", "--out", "bert", "--quiet"});
  bench.write("passes.jsonl",
              R"({"id": "x", "arrival_s": 0, "prompt_ids": [5, 6, 7], "new_tokens": 0})"
              "\n"
              R"({"id": "y", "arrival_s": 0, "prompt_tokens": 9, "new_tokens": 0})");
  for (const Words& made_for :
       {Words{"--workload", "passes.jsonl"}, Words{"--samples", "2", "--prompt-tokens", "6"}}) {
    bench.must(joined(
        {"plan", "--platform", "pair.xml", "--model", "bert", "--quiet", "--out", "plan.json"},
        made_for));
    CHECK(bench.simulated()["requests"].size() == 2);
    check_refused(bench, {"simulate", "plan.json", "--chunk", "4"}, 2, "reads its text whole");
    Words words = bench.run_words({"--hidden", "h.npy"});
    words[3] = "bert";
    bench.must(words);
    CHECK(bench.has("h.npy"));
    words.insert(words.end(), {"--samples", "2"});
    check_refused(bench, words, 1, "run it text by text");
  }
}

TEST_CASE("cli/planned: samples and steps in flight are kept") {
  const Memory bench;
  bench.plan({"--strategy", "pipeline", "--samples", "3", "--in-flight", "2", "--prompt-tokens",
              "6", "--new-tokens", "4"});
  CHECK(bench.json("plan.json")["workload"]["samples"] == 3);
  CHECK(bench.json("plan.json")["in_flight"] == 2);
  const Json predicted = bench.simulated({"--out", "predicted.json"});
  CHECK(predicted["requests"].size() == 3);
  CHECK(predicted["environment"]["policy"] == "recurrent");
  CHECK(predicted["environment"]["in_flight"] == "2");
  bench.run_plan({"--ignore-eos"});
  bench.must({"compare", "predicted.json", "measured.json", "--out", "compared", "--quiet"});
  CHECK(bench.simulated({"--samples", "1"})["requests"].size() == 1);
  // A policy with one step at a time has no use for two.
  CHECK(bench.simulated({"--policy", "sequential"})["environment"]["policy"] == "sequential");
  CHECK(bench.simulated({"--in-flight", "auto"})["environment"]["in_flight"] == "2");
}

TEST_CASE("cli/planned: every strategy's plan of a workload is read back, and keeps it") {
  const Memory bench;
  for (const char* const strategy : {"local", "tensor", "galaxy", "csps", "pipeline", "auto"}) {
    CAPTURE(strategy);
    bench.plan({"--strategy", strategy, "--workload", "w.jsonl"});
    CHECK(bench.simulated()["requests"].size() == 3);
  }
  bench.plan({"--workload", "w.jsonl", "--devices", "fewest"});
  CHECK(bench.simulated()["requests"].size() == 3);
}

TEST_CASE("cli/planned: a workload that is gone, has changed or has moved along") {
  const Memory bench;
  bench.write("made/w.jsonl", kRequests);
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny", "--workload", "made/w.jsonl",
              "--quiet", "--out", "made/plan.json"});
  CHECK(bench.json("made/plan.json")["workload"]["file"] == "w.jsonl");
  const Json predicted = bench.simulated({}, "made/plan.json");
  SUBCASE("moved along with its plan") {
    REQUIRE(bench.shell("mv made elsewhere").code == 0);
    CHECK(bench.simulated({}, "elsewhere/plan.json") == predicted);
    bench.run_plan({}, "elsewhere/plan.json");
  }
  SUBCASE("another folder is the current one") {
    const Outcome there = bench.shell("cd made && \"$TANDEM\" simulate plan.json --json");
    CHECK(there.err.empty());
    CHECK(Json::parse(there.out) == predicted);
  }
  SUBCASE("a plan behind a link, written and read") {
    REQUIRE(bench
                .shell("touch made/linked.json; ln -s made/linked.json link.json; mkdir deep; ln "
                       "-s ../made deep/down")
                .code == 0);
    bench.plan({"--workload", "made/w.jsonl"}, "link.json");
    CHECK(bench.json("made/linked.json")["workload"]["file"] == "w.jsonl");
    for (const char* const name : {"link.json", "made/linked.json", "deep/down/linked.json"})
      CHECK(bench.simulated({}, name) == predicted);
  }
  SUBCASE("gone: predicted by what the plan holds, with a remark; not run") {
    REQUIRE(bench.shell("rm made/w.jsonl").code == 0);
    const Outcome printed = bench.run({"simulate", "made/plan.json", "--json"});
    CHECK(printed.code == 0);
    CHECK(printed.err.find("'w.jsonl' is not there") != std::string::npos);
    CHECK(Json::parse(printed.out) == predicted);
    check_refused(bench, bench.run_words({}, "made/plan.json"), 1, "give '--workload FILE'");
    bench.run_plan({"--workload", "w.jsonl"}, "made/plan.json");
  }
  SUBCASE("changed: nothing is predicted or run of the one or the other without being asked for") {
    bench.write("made/w.jsonl", std::string(kRequests) + "\n");
    for (const char* const command : {"simulate", "whatif"})
      check_refused(bench, {command, "made/plan.json"}, 1, "give '--workload made/w.jsonl'");
    check_refused(bench, bench.run_words({}, "made/plan.json"), 1, "expected ");
    bench.must({"simulate", "made/plan.json", "--workload", "made/w.jsonl", "--tokenizer", "tiny",
                "--quiet", "--out", "r.json"});
  }
  SUBCASE("a result is not written over it") {
    check_refused(bench, {"simulate", "made/plan.json", "--quiet", "--out", "made/w.jsonl"}, 2,
                  "the plan's workload");
    Words words = bench.run_words({}, "made/plan.json");
    *(std::ranges::find(words, "--out") + 1) = "made/w.jsonl";
    check_refused(bench, words, 2, "the plan's workload");
  }
  SUBCASE("by a pipe: only its lengths are kept") {
    REQUIRE(
        bench
            .shell(
                "cat w.jsonl | \"$TANDEM\" plan --platform pair.xml --model tiny --strategy tensor "
                "--workload /dev/stdin --out piped.json --quiet")
            .code == 0);
    const Outcome printed = bench.run({"simulate", "piped.json", "--json"});
    CHECK(printed.code == 0);
    CHECK(Json::parse(printed.out)["requests"] == predicted["requests"]);
  }
}

TEST_CASE("cli/planned: special tokens in prompts are encoded as planned") {
  const Memory bench;
  bench.plan({"--workload", "w.jsonl", "--raw-prompt"});
  CHECK(bench.json("plan.json")["workload"]["raw_prompts"] == true);
  bench.run_plan();
  bench.write("ids.jsonl", R"({"id": "a", "arrival_s": 0, "prompt_ids": [1], "new_tokens": 2})");
  check_refused(bench,
                {"plan", "--platform", "pair.xml", "--model", "tiny", "--workload", "ids.jsonl",
                 "--raw-prompt", "--out", "p.json"},
                2, "raw-prompt");
}

TEST_CASE("cli/planned: whatif asks what helps the planned requests") {
  const Memory bench;
  bench.plan(in_chunks());
  const Json many = Json::parse(bench.good({"whatif", "plan.json", "--json"}));
  CHECK(many["requests"] == 3);
  CHECK(many["policy"] == "continuous");
  CHECK(many["chunk"] == 8);
  const Json predicted = bench.simulated();
  double sum_s = 0.0;
  for (const Json& request : predicted["requests"])
    sum_s += request["end_s"].get<double>() - request["arrival_s"].get<double>();
  CHECK(many["planned_s"].get<double>() == doctest::Approx(sum_s / 3.0).epsilon(1e-6));
  const Json analytic =
      Json::parse(bench.good({"whatif", "plan.json", "--json", "--evaluator", "analytic"}));
  for (const Json& change : analytic["changes"]) {
    if (change["request_s"].is_null()) continue;
    CHECK(change["request_s"].get<double>() > 0.0);
  }
  const Json one = Json::parse(bench.good({"whatif", "plan.json", "--json", "--samples", "1"}));
  CHECK(one["requests"] == 1);
  CHECK(
      bench.good({"whatif", "plan.json"}).find("3 requests, continuous, prompts in chunks of 8") !=
      std::string::npos);
}

TEST_CASE("cli/planned: plan says what it was made for, and prints commands that work") {
  const Memory bench;
  const std::string printed = bench.good(joined(
      {"plan", "--platform", "pair.xml", "--model", "tiny", "--out", "my plan.json"}, in_chunks()));
  CHECK(printed.find("the plan is for 3 requests, continuous, prompts in chunks of 8") !=
        std::string::npos);
  CHECK(printed.find("\nrun:     tandem run 'my plan.json' --weights tiny --emulate\n") !=
        std::string::npos);
  // At measured pace a machine that is busy with other things drifts.
  const std::vector<std::pair<std::string, std::string>> commands{
      {"predict: tandem ", ""}, {"run:     tandem ", " --allow-drift"}};
  for (const auto& [start, more] : commands) {
    const std::size_t at = printed.find(start) + start.size();
    REQUIRE(at > start.size());
    const Outcome done =
        bench.shell("\"$TANDEM\" " + printed.substr(at, printed.find('\n', at) - at) + more +
                    " --quiet --out out.json");
    CAPTURE(done.err);
    CHECK(done.code == 0);
  }
  bench.write("counts.jsonl",
              R"({"id": "a", "arrival_s": 0, "prompt_tokens": 9, "new_tokens": 6})");
  CHECK(bench
            .good({"plan", "--platform", "pair.xml", "--model", "tiny", "--workload",
                   "counts.jsonl", "--out", "counts.json"})
            .find("--workload FILE   (requests with prompts") != std::string::npos);
  check_refused(bench, bench.run_words({}, "counts.json"), 1, "give prompt or prompt_ids");
}

TEST_CASE("cli/planned: the command that runs a plan has the prompt that the plan is for") {
  const Memory bench;
  const std::string printed =
      bench.good({"plan", "--platform", "pair.xml", "--model", "tandem-tiny", "--strategy",
                  "tensor", "--prompt", "it's a test", "--raw-prompt", "--new-tokens", "2",
                  "--seconds", "0", "--out", "plan.json"});
  const std::string start = "\nrun:     tandem ";
  const std::size_t at = printed.find(start) + start.size();
  const std::string command = printed.substr(at, printed.find('\n', at) - at);
  CHECK(command ==
        R"(run plan.json --weights tandem-tiny --emulate --prompt 'it'\''s a test' --raw-prompt)");
  const Outcome done = bench.shell("\"$TANDEM\" " + command + " --allow-drift --out out.json");
  CAPTURE(done.err);
  CHECK(done.code == 0);
  CHECK(done.err.find("the plan was made for") == std::string::npos);
}

TEST_CASE("cli/planned: a plan for one request, and plans of before, are for one request") {
  const Memory bench;
  bench.plan({"--prompt-tokens", "6", "--new-tokens", "3"}, "one.json");
  CHECK(bench.json("one.json")["workload"] == Json{{"prompt_tokens", 6}, {"new_tokens", 3}});
  CHECK(!bench.json("one.json").contains("policy"));
  CHECK(bench.simulated({}, "one.json")["environment"].contains("prompt_tokens"));
  check_refused(bench, {"simulate", "one.json", "--policy", "static"}, 2, "without '--workload'");
  // As an earlier version wrote a plan for many.
  bench.plan(in_chunks());
  Json old = bench.json("plan.json");
  for (const char* const key : {"policy", "chunk"}) old.erase(key);
  for (const char* const key : {"file", "sha256", "requests"}) old["workload"].erase(key);
  bench.write("old.json", old.dump());
  CHECK(bench.simulated({}, "old.json")["requests"].size() == 1);
  CHECK(bench.simulated({}, "old.json")["plan"] == bench.simulated()["plan"]);
  CHECK(bench.simulated(joined(in_chunks(), {"--tokenizer", "tiny"}), "old.json")["requests"] ==
        bench.simulated()["requests"]);
}

}  // namespace tandem::test::planned_command_test
