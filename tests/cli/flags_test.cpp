// A flag that the mode makes idle is refused, with exit code 2; and nothing that a command writes
// is something that it reads, or writes elsewhere.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::flags_test {
namespace {

using Words = std::vector<std::string>;

// A model with weights; plan.json for both devices, local.json for the master alone.
class Desk : public Kitchen {
 public:
  Desk() {
    must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
    plan();
    must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--strategy", "local",
          "--prompt-tokens", "5", "--new-tokens", "4", "--out", "local.json", "--quiet"});
  }
};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words plan_with(const Words& more) {
  return with({"plan", "--platform", "pair.xml", "--model", "tiny.json"}, more);
}
Words local_with(const Words& more) {
  return with({"run", "local.json", "--weights", "tiny", "--cache", "cache"}, more);
}
Words here_with(const Words& more) {
  return with({"run", "--weights", "tiny", "--prompt", "hi", "--cache", "cache"}, more);
}
Words sweep_with(const Words& more) {
  return with({"sweep", "--platform", "pair.xml", "--model", "tiny.json", "--out", "s.csv"}, more);
}

}  // namespace

TEST_CASE("cli/flags: what has no effect in the mode that the others choose is refused") {
  const Desk bench;
  bench.write("hosts", "sofa 127.0.0.1:7000\n");
  bench.must({"worker", "--generate-key", "good.key"});
  const struct {
    Words words;
    const char* expected;
  } table[] = {
      {plan_with({"--raw-prompt"}), "'--raw-prompt'"},
      {plan_with({"--window", "all", "--release", "late"}), "'--release'"},
      {plan_with({"--release", "late"}), "'--release' has no effect with all weights in memory"},
      {plan_with({"--retain", "1"}), "give '--window W'"},
      {plan_with({"--strategy", "auto", "--retain", "1"}), "'--retain'"},
      {plan_with({"--strategy", "pipeline", "--samples", "2", "--in-flight", "2", "--retain", "1"}),
       "with '--in-flight 2'"},
      {plan_with({"--strategy", "csps", "--levels", "2", "--release", "late"}), "with '--levels'"},
      {plan_with({"--strategy", "csps", "--drop", "0.5", "--retain", "1"}), "with '--drop'"},
      {plan_with({"--strategy", "galaxy", "--levels", "2", "--retain", "1"}), "with '--levels'"},
      {plan_with({"--strategy", "csps", "--gather-weights", "--release", "late"}),
       "with '--gather-weights'"},
      {plan_with({"--strategy", "csps", "--levels", "2", "--allreduce", "ring"}),
       "with strategy 'csps' and '--levels'"},
      {plan_with({"--strategy", "spread", "--decode-ffn", "owner", "--allreduce", "ring"}),
       "give '--decode-ffn all'"},
      {plan_with({"--strategy", "spread", "--decode-moves", "auto", "--decode-ffn", "owner",
                  "--allreduce", "auto"}),
       "'--allreduce'"},
      {plan_with({"--strategy", "spread", "--head", "auto"}), "'--head'"},
      {plan_with({"--strategy", "local", "--head", "auto"}), "nothing to choose"},
      {plan_with({"--strategy", "local", "--partition", "equal"}), "'--partition'"},
      {plan_with({"--strategy", "local", "--dtype", "q8_0,q4_0"}),
       "'q8_0,q4_0' is several formats with strategy 'local', expected one; '--strategy auto'"},
      {plan_with({"--strategy", "pipeline", "--allreduce", "ring"}), "'--allreduce'"},
      {plan_with({"--strategy", "pipeline", "--rounds", "2", "--groups", "auto"}),
       "'--rounds': 2 with '--groups auto', whose stages a step passes once; expected"},
      {plan_with({"--devices", "auto,desk"}),
       "'--devices': 'auto,desk' has 'auto' among names, expected names alone"},
      {plan_with({"--devices", "auto", "--strategy", "csps", "--sp", "auto"}),
       "'--sp': auto compares plans on given devices, not with '--devices auto'"},
      {plan_with({"--devices", "auto", "--strategy", "spread", "--decode-moves", "auto"}),
       "'--decode-moves': auto compares plans on given devices, not with '--devices auto'"},
      {plan_with({"--devices", "auto", "--strategy", "pipeline", "--groups", "desk,board"}),
       "'--groups'"},
      {plan_with({"--devices", "auto", "--partition", "1:1"}), "whose number is not known"},
      {{"simulate", "plan.json", "--quiet"}, "leave no result"},
      {{"simulate", "plan.json", "--seed", "1"}, "'--seed'"},
      {{"eval", "--weights", "tiny", "--quiet"}, "leave no result"},
      {{"eval", "--weights", "tiny", "--key", "missing"}, "'--key'"},
      {local_with({"--key", "missing"}), "'--key'"},
      {local_with({"--pace", "nominal"}), "'--pace'"},
      {local_with({"--raw-prompt"}), "'--raw-prompt'"},
      {local_with({"--memory-limit", "1GiB"}), "'--memory-limit'"},
      {local_with({"--top-p", "0.5"}), "'--top-p'"},
      {local_with({"--min-p", "0.1"}), "'--min-p'"},
      {local_with({"--seed", "3", "--temperature", "0"}), "'--seed'"},
      {local_with({"--emulate", "--pace", "nominal", "--max-drift", "1"}), "'--max-drift'"},
      {here_with({"--emulate"}), "'--emulate'"},
      {here_with({"--hosts", "hosts"}), "'--hosts'"},
      {here_with({"--key", "good.key"}), "'--key'"},
      {here_with({"--max-drift", "1"}), "'--max-drift'"},
      {{"worker", "--generate-key", "k", "--listen", "127.0.0.1:0"}, "'--listen'"},
      {{"worker", "--generate-key", "k", "--quiet"}, "'--quiet'"},
      {{"profile", "--disk", "none", "--cache", "x"}, "'--cache'"},
      {sweep_with({"--vary", "link.latency=1ms,2ms", "--set", "link.latency=3ms"}), "'--set'"},
      {sweep_with({"--vary", "platform=pair.xml"}), "'--platform'"},
      {sweep_with({"--vary", "link.latency=1ms", "--set", "model=tiny.json"}), "'--model'"},
      {sweep_with({"--vary", "plan.master=desk", "--set", "link.latency=1ms", "--set",
                   "link.latency=2ms"}),
       "'--set'"},
  };
  for (const auto& line : table) {
    CAPTURE(line.words);
    check_refused(bench, line.words, 2, line.expected);
  }
}

TEST_CASE("cli/flags: what could not change a result is accepted, with a remark") {
  const Desk bench;
  bench.write("hosts", "sofa 127.0.0.1:7000\n");
  bench.must({"worker", "--generate-key", "good.key"});
  const Words nominal{"run",   "plan.json", "--weights", "tiny",    "--cache",
                      "cache", "--emulate", "--pace",    "nominal", "--ignore-eos"};
  const struct {
    Words words;
    std::string expected;
  } table[] = {
      {with(nominal, {"--allow-drift"}),
       "run: flag '--allow-drift' has no effect with '--pace nominal'"},
      {with(nominal, {"--copy"}), "run: flag '--copy' has no effect on emulated devices"},
      {local_with({"--allow-drift"}),
       "run: flag '--allow-drift' has no effect without '--emulate'"},
      {local_with({"--hosts", "hosts", "--key", "good.key"}),
       "run: flag '--hosts' has no effect as the plan's master works alone"},
      {plan_with({"--out", "-", "--json"}), "plan: flag '--json' has no effect with '--out -'"},
      {{"simulate", "plan.json", "--samples", "1", "--full"},
       "simulate: flag '--full' has no effect"},
  };
  for (const auto& line : table) {
    CAPTURE(line.words);
    const Outcome said = bench.run(line.words);
    CHECK(said.code == 0);
    CHECK(said.err.find("tandem " + line.expected) != std::string::npos);
    if (std::ranges::find(line.words, "--json") != line.words.end()) continue;
    const Outcome quiet = bench.run(with(line.words, {"--quiet", "--out", "quiet.json"}));
    CHECK(quiet.code == 0);
    CHECK(quiet.err.empty());
  }
}

TEST_CASE("cli/flags: what sums, or streams, has collectives and rules of release") {
  const Desk bench;
  for (const Words& more :
       {Words{"--strategy", "spread", "--decode-ffn", "all", "--allreduce", "ring"},
        Words{"--strategy", "csps", "--allreduce", "ring"},
        Words{"--strategy", "csps", "--sp", "tp", "--levels", "2", "--allreduce", "star"},
        Words{"--strategy", "galaxy", "--levels", "2", "--allreduce", "star"},
        Words{"--release", "early", "--retain", "none"}}) {
    CAPTURE(more);
    bench.must(plan_with(with(more, {"--quiet"})));
  }
  bench.must({"plan", "--platform", "flat3", "--model", "tiny.json", "--window", "1", "--retain",
              "2", "--release", "late", "--quiet"});
  // What is chosen may be without levels, and sum.
  bench.must({"plan", "--platform", "home4", "--model", "tandem-tiny", "--strategy", "csps",
              "--max-loss", "0", "--allreduce", "ring", "--quiet"});
}

TEST_CASE("cli/flags: a swept partition without a split is an error of its row") {
  const Desk bench;
  bench.must(sweep_with(
      {"--vary", "plan.strategy=local,tensor", "--set", "plan.partition=equal", "--quiet"}));
  CHECK(bench.read("s.csv").find("does not split the model") != std::string::npos);
  CHECK(bench.read("s.csv").find(",tensor,ok,") != std::string::npos);
}

TEST_CASE("cli/files: no output is an input, or another output, of the same command") {
  const Desk bench;
  bench.must(
      {"simulate", "plan.json", "--out", "predicted.json", "--trace", "trace.json", "--quiet"});
  bench.write("measured.json", as_measured(bench.read("predicted.json")));
  bench.write("ids", "1 2\n");
  bench.write("text.jsonl", "{\"text\": \"hello\"}\n");
  std::filesystem::create_symlink("plan.json", bench.folder() / "link.json");
  std::filesystem::create_hard_link(bench.folder() / "plan.json", bench.folder() / "hard.json");
  std::filesystem::create_directory_symlink("tiny", bench.folder() / "alias");
  const Words run{"run", "--weights", "tiny", "--cache", "cache"};
  const struct {
    Words words;
    const char* expected;
  } table[] = {
      {{"simulate", "plan.json", "--out", "plan.json"}, "argument plan.json"},
      {{"simulate", "plan.json", "--out", "./tiny/../plan.json"}, "argument plan.json"},
      {{"simulate", "plan.json", "--out", "link.json"}, "argument plan.json"},
      {{"simulate", "link.json", "--trace", "plan.json"}, "argument plan.json"},
      {{"simulate", "plan.json", "--out", "hard.json"}, "argument plan.json"},
      {{"simulate", "plan.json", "--out", "new.json", "--trace", "new.json"}, "one file"},
      {{"simulate", "plan.json", "--out", "tiny/new.json", "--trace", "alias/new.json"},
       "one file"},
      {{"plan", "--platform", "pair.xml", "--model", "tiny.json", "--out", "pair.xml"},
       "'--platform'"},
      {{"plan", "--platform", "pair.xml", "--model", "tiny.json", "--out", "tiny.json"},
       "'--model'"},
      {{"plan", "--platform", "pair.xml", "--model", "tiny", "--out", "tiny/config.json"},
       "'--model'"},
      {{"plan", "--platform", "pair.xml", "--model", "tiny.json", "--profile", "sofa=profile.json",
        "--out", "profile.json"},
       "'--profile'"},
      {with(run, {"--prompt-ids", "ids", "--out", "ids"}), "'--prompt-ids'"},
      {with(run, {"--prompt", "a", "--out", "tiny/model.safetensors"}), "'--weights'"},
      {with(run, {"--prompt", "a", "--out", "x", "--trace", "./x"}), "one file"},
      {with(run, {"--prompt", "a", "--out", "-"}), "standard output"},
      {{"eval", "--weights", "tiny", "--text", "text.jsonl", "--out", "text.jsonl"}, "held-out"},
      {{"compare", "predicted.json", "measured.json", "--out", "."}, "trace.json"},
      {{"profile", "--model", "tiny.json", "--out", "tiny.json"}, "'--model'"},
      {{"sweep", "--platform", "pair.xml", "--vary", "model=tiny.json,tiny", "--out", "pair.xml"},
       "a platform"},
      {{"sweep", "--platform", "pair.xml", "--vary", "model=tiny.json,tiny", "--out",
        "tiny/config.json"},
       "a model"},
      {{"model", "random", "--config", "tiny", "--out", "alias"}, "'--config'"},
      {{"model", "shard", "plan.json", "--weights", "tiny", "--out", "tiny/"}, "'--weights'"},
  };
  const std::string plan = bench.read("plan.json");
  for (const auto& line : table) {
    CAPTURE(line.words);
    check_refused(bench, line.words, 2, line.expected);
  }
  CHECK(bench.read("plan.json") == plan);
  // What swallows everything may be named twice.
  bench.must({"simulate", "plan.json", "--out", "/dev/null", "--trace", "/dev/null", "--quiet"});
}

}  // namespace tandem::test::flags_test
