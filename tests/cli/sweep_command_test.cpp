#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::sweep_command_test {
namespace {

using Json = nlohmann::json;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',') {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

std::vector<std::string> sweep_words(const std::string& out) {
  return {"sweep",
          "--platform",
          "pair.xml",
          "--model",
          "tiny.json",
          "--vary",
          "link.latency=1ms,log(10ms,1s,3)",
          "--vary",
          "plan.strategy=local,tensor,pipeline",
          "--vary",
          "workload.prompt_tokens=lin(1,9,3)",
          "--set",
          "workload.new_tokens=3",
          "--out",
          out};
}

}  // namespace

TEST_CASE("cli/sweep: one row a point, the last field fastest, as simulate predicts it") {
  const Kitchen bench;
  bench.must(sweep_words("sweep.csv"));
  const std::vector<std::string> lines = lines_of(bench.read("sweep.csv"));
  REQUIRE(lines.size() == 1 + 4 * 3 * 3);
  const std::vector<std::string> header = cells_of(lines[0]);
  CHECK(std::vector<std::string>(header.begin(), header.begin() + 6) ==
        std::vector<std::string>{"settings", "link.latency_s", "plan.strategy",
                                 "workload.prompt_tokens", "status", "ttft_s"});
  const std::vector<const char*> latencies{"0.001", "0.01", "0.1", "1"};
  const std::vector<const char*> strategies{"local", "tensor", "pipeline"};
  const std::vector<const char*> prompts{"1", "5", "9"};
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> cells = cells_of(lines[i]);
    CAPTURE(lines[i]);
    REQUIRE(cells.size() == header.size());
    CHECK(cells[1] == latencies[(i - 1) / 9]);
    CHECK(cells[2] == strategies[(i - 1) / 3 % 3]);
    CHECK(cells[3] == prompts[(i - 1) % 3]);
    CHECK(cells[4] == "ok");
    CHECK(std::stod(cells[5]) > 0.0);
  }
  // Two messages a token in a pipeline of two: 1 s of latency a link, of which a route has one or
  // more.
  CHECK(std::stod(cells_of(lines.back())[6]) > 2.0);
}

TEST_CASE("cli/sweep: any number of processes gives the same file") {
  const Kitchen bench;
  std::vector<std::string> words = sweep_words("one.csv");
  words.insert(words.end(), {"--jobs", "1"});
  bench.must(words);
  words = sweep_words("five.csv");
  words.insert(words.end(), {"--jobs", "5"});
  bench.must(words);
  CHECK(bench.read("one.csv") == bench.read("five.csv"));
}

TEST_CASE("cli/sweep: half a file is gone on with and ends as the whole") {
  const Kitchen bench;
  bench.must(sweep_words("sweep.csv"));
  const std::string whole = bench.read("sweep.csv");
  const std::vector<std::string> lines = lines_of(whole);
  // Every third row is there, in another order.
  std::string half = lines[0] + '\n';
  for (std::size_t i = lines.size() - 1; i > 2; i -= 3) half += lines[i] + '\n';
  bench.write("sweep.csv", half);
  const std::string said = bench.good(sweep_words("sweep.csv"));
  CHECK(said.find("36 points, 24 of them new") != std::string::npos);
  CHECK(bench.read("sweep.csv") == whole);
  CHECK(bench.good(sweep_words("sweep.csv")).find("0 of them new") != std::string::npos);
}

TEST_CASE("cli/sweep: a model that does not fit is a row with the reason") {
  const Kitchen bench;
  bench.must({"sweep", "--platform", "pair.xml", "--model", "tiny.json", "--vary",
              "device.memory=1kB,1GB", "--set", "plan.window=all", "--evaluator", "analytic",
              "--out", "sweep.csv"});
  const std::vector<std::string> lines = lines_of(bench.read("sweep.csv"));
  REQUIRE(lines.size() == 3);
  CHECK(lines[1].find(",infeasible,") != std::string::npos);
  CHECK(lines[1].find("lacks") != std::string::npos);
  CHECK(lines[2].find(",ok,") != std::string::npos);
}

TEST_CASE(
    "cli/sweep: auto takes the all-reduce that SimGrid, not the analytic evaluator, finds "
    "fastest" *
    doctest::test_suite("long")) {
  const Kitchen bench;
  bench.must({"sweep", "--platform", "klonet8", "--model", "tinyllama-1.1b", "--vary",
              "plan.allreduce=auto,star,ring,halving", "--set", "workload.new_tokens=2", "--out",
              "s.csv"});
  const std::vector<std::string> lines = lines_of(bench.read("s.csv"));
  REQUIRE(lines.size() == 5);
  const auto ttft = [&](std::size_t i) { return std::stod(cells_of(lines[i])[3]); };
  // Seven workers' prompts queue at the master's port.
  CHECK(ttft(4) < 0.5 * ttft(2));
  // It is the request's time that is the least; the first token's is near its least: shares for a
  // whole request are others than for its prompt.
  const auto total = [&](std::size_t i) { return std::stod(cells_of(lines[i])[6]); };
  CHECK(total(1) <= std::min({total(2), total(3), total(4)}));
  CHECK(ttft(1) <= 1.1 * std::min({ttft(2), ttft(3), ttft(4)}));
}

TEST_CASE("cli/sweep: rows are those of `tandem plan` and `tandem simulate`") {
  const Kitchen bench;
  bench.must({"sweep", "--platform", "pair.xml", "--model", "tiny.json", "--vary",
              "workload.prompt_tokens=5", "--set", "workload.new_tokens=4", "--out", "s.csv"});
  bench.plan();
  const Json result = Json::parse(bench.good({"simulate", "plan.json", "--json"}));
  const std::vector<std::string> cells = cells_of(lines_of(bench.read("s.csv")).at(1));
  CHECK(std::stod(cells[3]) == doctest::Approx(double{result["metrics"]["ttft_s"]}).epsilon(1e-9));
  double peak = 0.0;
  for (const Json& device : result["devices"])
    peak = std::max(peak, double{device["peak_memory_bytes"]["total"]});
  CHECK(std::stod(cells[7]) == doctest::Approx(peak).epsilon(1e-9));
}

TEST_CASE("cli/sweep: prompts in chunks are those of `tandem plan` and `tandem simulate`") {
  const Kitchen bench;
  const std::vector<std::string> words{"sweep",
                                       "--platform",
                                       "pair.xml",
                                       "--model",
                                       "tiny.json",
                                       "--set",
                                       "workload.new_tokens=3",
                                       "--vary",
                                       "plan.strategy=tensor,pipeline"};
  std::vector<std::string> varied = words;
  varied.insert(varied.end(), {"--vary", "plan.chunk=whole,2,auto", "--set",
                               "workload.prompt_tokens=7", "--out", "varied.csv"});
  bench.must(varied);
  std::vector<std::string> fixed = words;
  fixed.insert(fixed.end(),
               {"--chunk", "2", "--set", "workload.prompt_tokens=7", "--out", "fixed.csv"});
  bench.must(fixed);
  const std::vector<std::string> rows = lines_of(bench.read("varied.csv"));
  const std::vector<std::string> same = lines_of(bench.read("fixed.csv"));
  REQUIRE(rows.size() == 1 + 2 * 3);
  REQUIRE(same.size() == 1 + 2);
  for (std::size_t s = 0; s < 2; ++s) {
    const std::vector<std::string> whole = cells_of(rows[1 + 3 * s]);
    const std::vector<std::string> chunks = cells_of(rows[2 + 3 * s]);
    CAPTURE(rows[2 + 3 * s]);
    CHECK(chunks[3] == "ok");
    CHECK(chunks[4] != whole[4]);
    CHECK(chunks[4] == cells_of(same[1 + s])[3]);
    std::vector<std::string> plan{
        "plan",      "--platform",      "pair.xml", "--model",      "tiny.json", "--strategy",
        chunks[1],   "--head",          "master",   "--chunk",      "2",         "--out",
        "plan.json", "--prompt-tokens", "7",        "--new-tokens", "3"};
    if (s == 0) plan.insert(plan.end(), {"--allreduce", "star"});
    if (s == 1) plan.insert(plan.end(), {"--groups", "none", "--rounds", "1"});
    bench.must(plan);
    const Json result = Json::parse(bench.good({"simulate", "plan.json", "--json"}));
    CHECK(std::stod(chunks[4]) ==
          doctest::Approx(double{result["metrics"]["ttft_s"]}).epsilon(1e-9));
    // What is best is no slower than either.
    CHECK(std::stod(cells_of(rows[3 + 3 * s])[7]) <= std::stod(whole[7]) * (1.0 + 1e-9));
  }
  std::vector<std::string> twice = fixed;
  twice.insert(twice.end(), {"--set", "plan.chunk=3"});
  check_refused(bench, twice, 2, "flag '--chunk' has no effect with flag '--set'");
  std::vector<std::string> word = words;
  word.insert(word.end(), {"--chunk", "many", "--out", "word.csv"});
  check_refused(bench, word, 1,
                "field 'plan.chunk': 'many', expected a number of at least 1, whole or auto");
}

TEST_CASE("cli/sweep: hosts and values that the file does not state are those of `tandem plan`") {
  const Kitchen bench;
  const std::string bare =
      replaced(bench.read("pair.xml"), "<prop id=\"tandem:memory\" value=\"2GiB\"/>", "");
  bench.write("bare.xml", bare);
  const auto row = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> words{"sweep",
                                   "--platform",
                                   "bare.xml",
                                   "--model",
                                   "tiny.json",
                                   "--vary",
                                   "workload.prompt_tokens=5",
                                   "--set",
                                   "plan.window=all",
                                   "--out",
                                   out};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = bench.run(words);
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    CHECK((outcome.err.find("does not state everything") != std::string::npos) ==
          (more.empty() || more[0] == "--default"));
    return lines_of(bench.read(out)).at(1);
  };
  CHECK(row("a.csv", {}).find(",ok,") != std::string::npos);
  CHECK(row("b.csv", {"--default", "memory=1MiB"}).find(",infeasible,") != std::string::npos);
  const std::vector<std::string> desk = cells_of(row("c.csv", {"--hosts", "desk"}));
  CHECK(desk[11] == "1");
  // Rows of other defaults are not taken for these.
  check_refused(bench,
                {"sweep", "--platform", "bare.xml", "--model", "tiny.json", "--vary",
                 "workload.prompt_tokens=5", "--set", "plan.window=all", "--out", "a.csv",
                 "--default", "memory=1MiB", "--quiet"},
                1, "other settings");
}

TEST_CASE("cli/sweep: a slowdown divides the rates that other fields set, once") {
  const Kitchen bench;
  const auto latency = [&](const std::vector<std::string>& settings) {
    std::vector<std::string> words{"sweep",
                                   "--platform",
                                   "pair.xml",
                                   "--model",
                                   "tiny.json",
                                   "--vary",
                                   "workload.prompt_tokens=5",
                                   "--out",
                                   "s.csv"};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    bench.must(words);
    const double value = std::stod(cells_of(lines_of(bench.read("s.csv")).at(1))[4]);
    std::filesystem::remove(bench.folder() / "s.csv");
    return value;
  };
  const std::string flops = "device.flops=10Gf";
  const std::string memory = "device.memory_bandwidth=4GBps";
  const double half = latency({"device.flops=5Gf", "device.memory_bandwidth=2GBps"});
  CHECK(latency({"device.slowdown=2", flops, memory}) == half);
  CHECK(latency({flops, memory, "device.slowdown=2"}) == half);
  CHECK(latency({"device.slowdown=3", flops, memory, "device[desk].slowdown=2",
                 "device[sofa].slowdown=2"}) == half);
  CHECK(latency({flops, memory}) < half);
}

TEST_CASE("cli/sweep: rows of a model or platform that has changed are not taken for new ones") {
  const Kitchen bench;
  const std::vector<std::string> words{
      "sweep", "--model", "tiny.json", "--vary", "platform=pair.xml", "--out", "s.csv"};
  bench.must(words);
  const std::string before = bench.read("s.csv");
  const std::string platform = bench.read("pair.xml");
  bench.write("pair.xml", replaced(platform, "latency=\"1ms\"", "latency=\"9ms\""));
  check_refused(bench, words, 1, "other settings");
  bench.write("pair.xml", platform);
  const std::string model = bench.read("tiny.json");
  bench.write("tiny.json", model + "\n");
  check_refused(bench, words, 1, "other settings");
  CHECK(bench.read("s.csv") == before);
}

TEST_CASE("cli/sweep: an all-reduce that a strategy does not make is a row with the reason") {
  const Kitchen bench;
  bench.must({"sweep", "--platform", "pair.xml", "--model", "tiny.json", "--vary",
              "plan.strategy=pipeline,tensor", "--vary", "plan.allreduce=star,ring", "--out",
              "s.csv"});
  const std::vector<std::string> lines = lines_of(bench.read("s.csv"));
  REQUIRE(lines.size() == 5);
  CHECK(lines[1].find("joins no partial sums") != std::string::npos);
  CHECK(lines[2].find(",error,") != std::string::npos);
  CHECK(lines[3].find(",ok,") != std::string::npos);
  CHECK(lines[4].find(",ok,") != std::string::npos);
}

TEST_CASE("cli/sweep: one device or link is varied by name") {
  const Kitchen bench;
  bench.must({"sweep", "--platform", "pair.xml", "--model", "tiny.json", "--vary",
              "device[sofa].flops=1Mf,1Gf", "--set", "plan.partition=equal", "--out", "s.csv"});
  const std::vector<std::string> lines = lines_of(bench.read("s.csv"));
  REQUIRE(lines.size() == 3);
  CHECK(cells_of(lines[0])[1] == "device[sofa].flops_per_s");
  CHECK(std::stod(cells_of(lines[1])[3]) > std::stod(cells_of(lines[2])[3]));
}

TEST_CASE("cli/sweep: what is wrong with a field or value is said before anything is done") {
  const Kitchen bench;
  const auto refused = [&](const std::string& vary, const std::string& expected) {
    CAPTURE(vary);
    check_refused(bench,
                  {"sweep", "--platform", "pair.xml", "--model", "tiny.json", "--vary", vary,
                   "--out", "s.csv"},
                  1, expected);
  };
  refused("link.latancy=1ms", "did you mean 'link.latency'");
  refused("magic=1", "unknown, expected one of platform");
  refused("link.latency=1", "link.latency");
  refused("link.latency=1ms,,2ms", "link.latency");
  refused("link.latency=lin(1ms,2ms)", "lin(FIRST,LAST,COUNT)");
  refused("link.latency=log(0ms,2ms,3)", "use lin");
  refused("link.latency=lin(1ms,2ms,1)", "COUNT from 2");
  refused("link[none].latency=1ms", "'none'");
  refused("device[none].memory=1GB", "none");
  refused("model[desk]=tiny.json", "model");
  check_refused(bench,
                {"sweep", "--platform", "pair.xml", "--vary", "model=none.json", "--out", "s.csv"},
                1, "none.json");
  refused("plan.strategy=magic", "magic");
  refused("plan.allreduce=star,magic", "magic");
  refused("plan.partition=equal,blah", "blah");
  refused("device.slowdown=0", "above 0");
  refused("plan.window=0", "plan.window");
  refused("plan.release=soon", "early or late");
  refused("workload.prompt_tokens=0", "workload.prompt_tokens");
  refused("workload.prompt_tokens=1000000", "expected at most");
  refused("platform.devices=3", "expected at most the 2");
  refused("link.latency", "FIELD=VALUES");
  check_refused(bench, {"sweep", "--platform", "pair.xml", "--model", "tiny.json", "--out", "s"}, 2,
                "--vary");
  check_refused(bench, {"sweep", "--vary", "link.latency=1ms", "--out", "s"}, 2, "--platform");
}

TEST_CASE("cli/sweep: a file of another sweep is refused and kept") {
  const Kitchen bench;
  bench.must(sweep_words("sweep.csv"));
  const std::string before = bench.read("sweep.csv");
  std::vector<std::string> words = sweep_words("sweep.csv");
  words.insert(words.end(), {"--evaluator", "analytic"});
  check_refused(bench, words, 1, "made with other settings");
  CHECK(bench.read("sweep.csv") == before);
  bench.write("other.csv", "a,b\n1,2\n");
  words = sweep_words("other.csv");
  check_refused(bench, words, 1, "other columns");
  bench.write("torn.csv", "a,\"b\n");
  check_refused(bench, sweep_words("torn.csv"), 1, "no closing quote");
}

}  // namespace tandem::test::sweep_command_test
