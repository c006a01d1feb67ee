// Files and flags of `run` and `worker` that are wrong: refused before anything is started.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::bad_run_test {
namespace {

using Words = std::vector<std::string>;

// A kitchen with a plan and weights.
class Stove : public Kitchen {
 public:
  Stove() {
    plan();
    must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
    write_key("good.key", std::string(64, 'a') + "\n");
  }
  void write_key(const std::string& name, const std::string& contents) const {
    using std::filesystem::perms;
    write(name, contents);
    std::filesystem::permissions(folder() / name, perms::owner_read | perms::owner_write);
  }
};

Words run_with(const Words& flags) {
  Words words{"run", "plan.json", "--weights", "tiny", "--cache", "cache"};
  words.insert(words.end(), flags.begin(), flags.end());
  return words;
}

}  // namespace

TEST_CASE("cli/bad input: command lines of run and worker that make no sense exit with 2") {
  const Stove bench;
  bench.write("hosts", "sofa 127.0.0.1:7000\n");
  bench.write("ids", "1 2 3 4 5\n");
  const struct {
    Words words;
    const char* expected;
  } table[] = {
      {{"run"}, "'--weights' is required"},
      {{"run", "plan.json", "--emulate"}, "'--weights' is required"},
      {run_with({}), "--emulate"},
      {run_with({"--emulate", "--hosts", "hosts"}), "contradict"},
      {run_with({"--hosts", "hosts", "--pace", "nominal"}), "'--emulate'"},
      {run_with({"--emulate", "--key", "good.key"}), "'--hosts'"},
      {run_with({"--emulate", "--prompt", "hello", "--prompt-ids", "ids"}), "contradict"},
      {{"worker"}, "'--listen' is required"},
      {{"worker", "--listen", "127.0.0.1:0", "--onec"}, "did you mean '--once'?"},
  };
  for (const auto& line : table) check_refused(bench, line.words, 2, line.expected);
}

TEST_CASE("cli/bad input: what run takes is given in another's place") {
  const Stove bench;
  check_refused(bench, {"run", "tiny", "--weights", "tiny", "--emulate"}, 1,
                "argument plan.json: 'tiny': a folder, expected a plan");
  check_refused(bench, {"run", "tiny.json", "--weights", "tiny", "--emulate"}, 1,
                "tiny.json: a model's config.json, expected a plan");
  check_refused(bench, {"run", "--weights", "tiny.json", "--prompt", "x"}, 1,
                "flag '--weights': tiny.json: neither a folder nor a GGUF file, expected a folder");
}

TEST_CASE("cli/bad input: flag values of run and worker") {
  const Stove bench;
  bench.write("empty", "");
  bench.write("words", "1 two 3");
  bench.write("binary", std::string("GGUF\3\0\0\0\xc9", 9));
  bench.write("strange", "1 300");
  bench.write("negative", "-1");
  bench.write("marked",
              "\xEF\xBB\xBF"
              "1 300");
  const struct {
    Words flags;
    const char* expected;
  } table[] = {
      {{"--pace", "fast"}, "nominal"},
      {{"--temperature", "-1"}, "'-1'"},
      {{"--temperature", "warm"}, "'warm'"},
      {{"--top-p", "0"}, "top"},
      {{"--top-p", "1.5"}, "'1.5'"},
      {{"--temperature", "1", "--min-p", "2"}, "'2'"},
      {{"--repetition-penalty", "0"}, "expected above 0 and at most 100"},
      {{"--presence-penalty", "2.5"}, "'2.5'"},
      {{"--frequency-penalty", "-3"}, "'-3'"},
      {{"--seed", "0x10"}, "'0x10'"},
      {{"--new-tokens", "0"}, "'0'"},
      {{"--threads", "0"}, "'0'"},
      {{"--max-drift", "-1"}, "'-1'"},
      {{"--dilate", "0.5"}, "'0.5'"},
      {{"--dilate", "1e9"}, "'1e9'"},
      {{"--prompt-ids", "absent"}, "absent"},
      {{"--prompt-ids", "empty"}, "no token ids"},
      {{"--prompt-ids", "words"}, "'two'"},
      {{"--prompt-ids", "binary"}, "expected token ids"},
      {{"--prompt-ids", "strange"}, "300"},
      {{"--prompt-ids", "marked"}, "300"},
      {{"--prompt-ids", "negative"}, "'-1'"},
      {{"--out", "no/such/result.json"}, "does not exist"},
      {{"--trace", "."}, "is a folder"},
  };
  for (const auto& line : table) {
    Words flags{"--emulate", "--quiet"};
    flags.insert(flags.end(), line.flags.begin(), line.flags.end());
    check_refused(bench, run_with(flags), 1, line.expected);
  }
  for (const char* address : {"nowhere", "127.0.0.1", "127.0.0.1:", ":7000x", "127.0.0.1:99999",
                              "127.0.0.1:-1", "0.0.0.0:0"})
    check_refused(bench, {"worker", "--listen", address, "--cache", "cache"}, 1, address);
}

TEST_CASE("cli/bad input: files of hosts") {
  const Stove bench;
  const struct {
    const char* contents;
    const char* expected;
  } table[] = {
      {"", "sofa"},
      {"sofa\n", "host:port"},
      {"sofa 127.0.0.1:7000 please\n",
       "expected 'device-name host:port' with a device of the plan, 'desk', 'sofa'; correct the "
       "line"},
      {"moon 127.0.0.1:7000\n",
       "hosts:1: device 'moon' is not in the plan, expected one of its devices, 'desk', 'sofa'; "
       "correct the name"},
      {"sofa 127.0.0.1:7000\nsofa 127.0.0.1:7001\n", "already"},
      {"sofa local\n", "local"},
      {"desk 127.0.0.1:7000\nsofa 127.0.0.1:7001\n", "master"},
      {"sofa 127.0.0.1\n", "127.0.0.1"},
      {"sofa 127.0.0.1:0\n", "127.0.0.1:0"},
      {"sofa 127.0.0.1:65536\n", "65536"},
      {"sofa 127.0.0.1:http\n", "http"},
      {"sofa :7000\n", ":7000"},
      {"\x01\x02\xff\xfe\n", "hosts"},
  };
  for (const auto& line : table) {
    CAPTURE(line.contents);
    bench.write("hosts", line.contents);
    check_refused(bench, run_with({"--hosts", "hosts", "--quiet"}), 1, line.expected);
  }
  // A byte order mark is none of the name. Nothing listens at port 1.
  bench.write("hosts", "\xEF\xBB\xBFsofa 127.0.0.1:1\n");
  const Outcome marked = bench.run(run_with({"--hosts", "hosts", "--quiet"}));
  CHECK(marked.code == 1);
  CHECK(marked.err.find("sofa at 127.0.0.1:1: cannot connect") != std::string::npos);
  check_refused(bench, run_with({"--hosts", "absent", "--quiet"}), 1, "absent");
  check_refused(bench, run_with({"--hosts", "tiny", "--quiet"}), 1, "is a folder");
}

TEST_CASE("cli/bad input: one address for two names, however it is written") {
  const Stove bench;
  bench.write("home4.xml", tandem::test::source_file("scenarios/platforms/home4.xml"));
  bench.must({"plan", "--platform", "home4.xml", "--model", "tiny.json", "--prompt-tokens", "5",
              "--new-tokens", "4", "--out", "plan.json", "--quiet"});
  for (const char* two : {"laptop tower:7000\nboard tower:7000\nmini-pc tower:7001\n",
                          "laptop tower:7000\nboard Tower:7000\nmini-pc tower:7001\n",
                          "laptop [::1]:7000\nboard [::1]:07000\nmini-pc tower:7001\n"}) {
    CAPTURE(two);
    bench.write("hosts", two);
    check_refused(bench, run_with({"--hosts", "hosts", "--quiet"}), 1,
                  "hosts:2: device 'board' has the address of 'laptop'");
  }
}

TEST_CASE("cli/bad input: keys") {
  const Stove bench;
  bench.write("hosts", "sofa 127.0.0.1:7000\n");
  bench.write_key("empty", "");
  bench.write_key("short", std::string(63, 'a') + "\n");
  bench.write_key("long", std::string(65, 'a') + "\n");
  bench.write_key("letters", std::string(64, 'g') + "\n");
  bench.write_key("binary", std::string(64, '\0'));
  bench.write("public", std::string(64, 'a') + "\n");
  std::filesystem::permissions(bench.folder() / "public", std::filesystem::perms::owner_read |
                                                              std::filesystem::perms::others_read);
  for (const char* key :
       {"absent", "empty", "short", "long", "letters", "binary", "public", "tiny"}) {
    check_refused(bench, run_with({"--hosts", "hosts", "--key", key, "--quiet"}), 1, key);
    check_refused(bench, {"worker", "--listen", "127.0.0.1:0", "--key", key, "--cache", "cache"}, 1,
                  key);
  }
}

TEST_CASE("cli: a prompt given as the plan is told where prompts go") {
  const Kitchen bench;
  const tandem::test::Outcome outcome =
      bench.shell("exec \"$TANDEM\" run --weights tiny 'hi there'");
  CAPTURE(outcome.err);
  CHECK(outcome.code == 1);
  CHECK(outcome.err.find("'hi there': no such file") != std::string::npos);
  CHECK(outcome.err.find("--prompt") != std::string::npos);
}

TEST_CASE("cli: a killed command leaves no partial file") {
  const Kitchen bench;
  std::string big = tandem::test::replaced(bench.read("tiny.json"), "\"num_hidden_layers\": 2",
                                           "\"num_hidden_layers\": 64");
  bench.write("big.json",
              tandem::test::replaced(big, "\"hidden_size\": 64", "\"hidden_size\": 512"));
  for (const char* signal : {"TERM", "HUP", "KILL"}) {
    CAPTURE(signal);
    static_cast<void>(
        bench.shell("\"$TANDEM\" model random --config big.json --out big & sleep 0.2; kill -" +
                    std::string(signal) + " $!; wait $!"));
    for (const std::string& name : bench.listing())
      CHECK(name.find("partial") == std::string::npos);
  }
}

}  // namespace tandem::test::bad_run_test
