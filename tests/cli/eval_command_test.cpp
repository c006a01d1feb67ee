// `tandem eval` through the program: its options, its files, devices and windows.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::eval_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

// Weights without a tokenizer: a token is a byte.
class Classroom : public Kitchen {
 public:
  Classroom() {
    must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
    write("text.jsonl",
          "{\"text\": \"The quick brown fox jumps over the lazy dog.\"}\n"
          "{\"text\": \"Once.\"}\n{\"text\": \"And then again, at some length.\"}\n");
    write("recall.jsonl",
          "{\"distance\": 4, \"prompt\": \"a is b, a is\", \"answer\": \" b\"}\n"
          "{\"distance\": 4, \"prompt\": \"c is d, c is\", \"answer\": \" d\"}\n"
          "{\"distance\": 9, \"prompt\": \"e is f and so on, e is\", \"answer\": \" f\"}\n");
    std::string platform = read("pair.xml");
    for (const char* size : {"4GiB", "2GiB"}) {
      const std::string memory = "<prop id=\"tandem:memory\" value=\"" + std::string(size) + "\"/>";
      platform = replaced(platform, memory,
                          memory + "<prop id=\"tandem:disk_bandwidth\" value=\"1GBps\"/>");
    }
    write("disks.xml", platform);
  }
  void plan(const std::string& name, const Words& more) const {
    Words words{"plan",  "--platform", "disks.xml", "--model",         "tiny.json",
                "--out", name,         "--quiet",   "--prompt-tokens", "50"};
    words.insert(words.end(), more.begin(), more.end());
    must(words);
  }
  [[nodiscard]] static Words words(const Words& more) {
    Words all{"eval", "--weights", "tiny", "--cache", "cache"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Scores of both files, without what depends on the run.
  [[nodiscard]] Json scores(const Words& more) const {
    Words all = words({"--text", "text.jsonl", "--recall", "recall.jsonl", "--json"});
    all.insert(all.end(), more.begin(), more.end());
    return without_time(Json::parse(good(all)));
  }
  static Json without_time(Json json) {
    json.erase("elapsed_s");
    json.erase("plan");
    return json;
  }
};

}  // namespace

TEST_CASE("cli/eval: scores, files, limits and outputs") {
  const Classroom bench;
  const Json all = bench.scores({});
  CHECK(all["schema"] == "tandem.eval/2");
  CHECK(all["weights_sha256"].get<std::string>().size() == 64);
  CHECK(all["text"]["documents"] == 3);
  CHECK(all["text"]["bits_per_byte"].get<double>() > 1.0);
  CHECK(all["recall"]["questions"] == 3);
  CHECK(all["recall"]["distances"].size() == 2);
  SUBCASE("--limit: one document, one question of each distance") {
    const Json limited = bench.scores({"--limit", "1"});
    CHECK(limited["text"]["documents"] == 1);
    CHECK(limited["text"]["bytes"] == limited["text"]["tokens"]);  // a token is a byte
    CHECK(limited["text"]["bytes"] >= 43);
    CHECK(limited["recall"]["questions"] == 2);
  }
  SUBCASE("one file alone, in a table, and --out") {
    const std::string table =
        bench.good(Classroom::words({"--text", "text.jsonl", "--out", "scores.json"}));
    CHECK(table.find("bits per byte") != std::string::npos);
    CHECK(table.find("recall") == std::string::npos);
    const Json stored = Json::parse(bench.read("scores.json"));
    CHECK(stored["recall"].is_null());
    CHECK(stored["text"] == all["text"]);
    CHECK(
        bench.good(Classroom::words({"--recall", "recall.jsonl", "--quiet", "--out", "quiet.json"}))
            .empty());
    CHECK(Json::parse(bench.good(Classroom::words(
              {"--recall", "recall.jsonl", "--out", "-"})))["recall"] == all["recall"]);
  }
  SUBCASE("files of the model's folder") {
    bench.write("tiny/eval/heldout.jsonl", bench.read("text.jsonl"));
    const Json usual = Json::parse(bench.good(Classroom::words({"--json", "--threads", "2"})));
    CHECK(usual["text"]["bits"] == all["text"]["bits"]);
    CHECK(usual["recall"].is_null());
  }
}

TEST_CASE("cli/eval: a plan's devices, emulated or hosts, and any window give the same scores") {
  const Classroom bench;
  const Json alone = bench.scores({});
  for (const char* window : {"1", "2", "3"}) {
    CAPTURE(window);
    bench.plan("stream.json", {"--strategy", "local", "--window", window, "--retain", "none"});
    CHECK(bench.scores({"--plan", "stream.json"}) == alone);
  }
  bench.plan("whole.json", {"--partition", "1:1", "--window", "all"});
  const Json whole = bench.scores({"--plan", "whole.json", "--emulate"});
  CHECK(whole["text"]["bits"].get<double>() ==
        doctest::Approx(alone["text"]["bits"].get<double>()).epsilon(1e-5));
  bench.plan("stream.json", {"--partition", "1:1", "--window", "2", "--release", "late"});
  CHECK(bench.scores({"--plan", "stream.json", "--emulate"}) == whole);

  const Outcome hosts = bench.shell(R"sh(
      "$TANDEM" worker --listen 127.0.0.1:0 --once --cache worker-cache > worker.log 2>&1 &
      for i in $(seq 400); do grep -q 'listening on' worker.log && break; sleep 0.05; done
      echo "sofa $(sed -n 's/.*listening on \(127[0-9.:]*\).*/\1/p' worker.log)" > hosts
      "$TANDEM" eval --weights tiny --cache cache --plan stream.json --hosts hosts \
        --text text.jsonl --recall recall.jsonl --json && wait)sh");
  REQUIRE_MESSAGE(hosts.code == 0, hosts.err);
  CHECK(Classroom::without_time(Json::parse(hosts.out)) == whole);
}

TEST_CASE("cli/eval: what cannot be scored is refused before anything is started") {
  const Classroom bench;
  bench.plan("pair.json", {});
  bench.write("hosts", "sofa 127.0.0.1:7000\n");
  bench.write("empty.jsonl", "");
  bench.write("bad.jsonl", "{\"text\": 7}\n");
  const struct {
    Words flags;
    int code;
    const char* expected;
  } table[] = {
      {{"--json", "--quiet"}, 2, "contradict"},
      {{"--text", "text.jsonl", "--emulate"}, 2, "without '--plan'"},
      {{"--text", "text.jsonl", "--hosts", "hosts"}, 2, "without '--plan'"},
      {{"--text", "text.jsonl", "--key", "hosts"}, 2, "without '--plan'"},
      {{"--plan", "pair.json", "--hosts", "hosts", "--emulate"}, 2, "contradict"},
      {{"--plan", "pair.json", "--text", "text.jsonl"}, 2, "'--hosts FILE' or '--emulate'"},
      {{"--text", "text.jsonl", "--limit", "0"}, 1, "'0'"},
      {{"--text", "text.jsonl", "--threads", "many"}, 1, "'many'"},
      {{"--text", "absent.jsonl"}, 1, "absent.jsonl"},
      {{"--text", "empty.jsonl"}, 1, "empty.jsonl"},
      {{"--text", "bad.jsonl"}, 1, "bad.jsonl"},
      {{}, 1, "give '--text' or '--recall'"},
      {{"--text", "text.jsonl", "--out", "no/such.json"}, 1, "does not exist"},
      {{"--plan", "absent.json", "--text", "text.jsonl"}, 1, "absent.json"},
  };
  for (const auto& line : table)
    check_refused(bench, Classroom::words(line.flags), line.code, line.expected);
  check_refused(bench, {"eval", "--text", "text.jsonl"}, 2, "'--weights' is required");
}

}  // namespace tandem::test::eval_command_test
