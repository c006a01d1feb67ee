// Plans that stream weights, through the program: making shards, budgets, comparing, timelines.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::streaming_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string with_disk(const std::string& platform, const std::string& bandwidth) {
  const std::string disk = R"(<prop id="tandem:disk_bandwidth" value=")" + bandwidth + "\"/>";
  const std::string memory = R"(<prop id="tandem:memory" value=")";
  const std::string desk = replaced(platform, memory + "4GiB", disk + memory + "4GiB");
  return replaced(desk, memory + "2GiB", disk + memory + "2GiB");
}

// A model of 23 MB, which slicing tells of on its way, a smaller one, and disks.
class Cellar : public Kitchen {
 public:
  Cellar() {
    write("disks.xml", with_disk(read("pair.xml"), "200MBps"));
    std::string big =
        replaced(read("tiny.json"), "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 6");
    big = replaced(big, "\"hidden_size\": 64", "\"hidden_size\": 256");
    big = replaced(big, "\"intermediate_size\": 96", "\"intermediate_size\": 768");
    write("big.json", replaced(big, "\"vocab_size\": 300", "\"vocab_size\": 2048"));
    must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
  }
  void make_big() const {
    must({"model", "random", "--config", "big.json", "--out", "big", "--dtype", "BF16", "--quiet"});
  }
  void plan_on(const std::string& model, const Words& more) const {
    Words words{"plan", "--platform",   "disks.xml", "--model", model,       "--prompt-tokens",
                "5",    "--new-tokens", "6",         "--out",   "plan.json", "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    must(words);
  }
  [[nodiscard]] Json result(const std::string& name) const { return Json::parse(read(name)); }
};

Words files_in(const Kitchen& bench, const std::string& folder) {
  Words files;
  for (const std::string& name : bench.listing()) {
    if (name.rfind(folder + "/", 0) == 0 && std::filesystem::is_regular_file(bench.folder() / name))
      files.push_back(name);
  }
  return files;
}

// As the program says it on a terminal: progress and text.
Outcome on_terminal(const Kitchen& bench, const std::string& command) {
  return bench.shell("script -qec '\"$TANDEM\" " + command + "' /dev/null");
}

constexpr const char* kSlicing = "slicing the weights of desk: ";

}  // namespace

TEST_CASE(
    "cli/streaming: weights sliced ahead are used, missing ones are made, both with progress") {
  const Cellar bench;
  bench.make_big();
  bench.plan_on("big", {"--strategy", "local", "--window", "2"});
  const Outcome made = on_terminal(bench, "model shard plan.json --weights big --out ahead");
  CHECK(made.code == 0);
  CHECK(contains(made.out, kSlicing));
  CHECK(contains(made.out, "%"));
  const Words blocks = files_in(bench, "ahead/blocks");
  CHECK(blocks.size() > 4);
  CHECK(files_in(bench, "ahead/labels").size() == blocks.size());
  CHECK(files_in(bench, "ahead/index").size() == blocks.size());
  const auto changed = [&] {
    std::vector<std::filesystem::file_time_type> times;
    for (const std::string& name : blocks)
      times.push_back(std::filesystem::last_write_time(bench.folder() / name));
    return times;
  };
  const auto before = changed();

  const std::string run = "run plan.json --weights big --threads 1 --ignore-eos --out ";
  const Outcome used = on_terminal(bench, run + "used.json --cache ahead");
  CHECK(used.code == 0);
  CHECK_FALSE(contains(used.out, kSlicing));
  CHECK(files_in(bench, "ahead/blocks") == blocks);
  CHECK(changed() == before);
  const Outcome missing = on_terminal(bench, run + "missing.json --cache other");
  CHECK(missing.code == 0);
  CHECK(contains(missing.out, kSlicing));
  CHECK(files_in(bench, "other/blocks").size() <= blocks.size());
  CHECK(bench.result("used.json")["tokens"] == bench.result("missing.json")["tokens"]);
}

TEST_CASE("cli/streaming: a full disk while slicing is one error, nothing half-written stays") {
  const Cellar bench;
  bench.make_big();
  bench.plan_on("big", {"--strategy", "local", "--window", "2"});
  const std::string shard = "\"$TANDEM\" model shard plan.json --weights big --out cache --quiet";
  const std::string run = "\"$TANDEM\" run plan.json --weights big --cache cache --quiet";
  const auto check = [&](const Outcome& outcome, const std::string& reason) {
    CAPTURE(outcome.err);
    CHECK(outcome.code == 1);
    CHECK(outcome.out.empty());
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CHECK(contains(outcome.err, "cache/blocks: cannot write after "));
    CHECK(contains(outcome.err, reason));
    CHECK(contains(outcome.err, "free space"));
  };
  // A file may not become larger than 1 MiB, half of a block.
  for (const std::string& command : {shard, run}) {
    check(bench.shell("ulimit -f 2048; exec " + command), "File too large");
    for (const char* const kept : {"cache/blocks", "cache/labels", "cache/index"})
      CHECK(files_in(bench, kept).empty());
  }
  // A disk of 8 MiB, where this user may mount one.
  const std::string mount = "mkdir -p cache && mount -t tmpfs -o size=8m none cache";
  if (bench.shell("unshare -rm sh -c '" + mount + "'").code == 0) {
    bench.write("full.sh",
                mount + " && " + shard + "; code=$?; find cache -name '*partial*'; exit $code\n");
    check(bench.shell("unshare -rm sh full.sh"), "No space left on device");
  } else {
    MESSAGE("no file system may be mounted here: only the limit of a file's size was tested");
  }
  CHECK(bench.shell(shard).code == 0);
  CHECK(files_in(bench, "cache/blocks").size() == files_in(bench, "cache/labels").size());
}

TEST_CASE("cli/streaming: a budget below one block is a no of plan, and an error of run") {
  const Cellar bench;
  bench.make_big();
  const Words words{"plan",       "--platform", "disks.xml",       "--model", "big",
                    "--strategy", "local",      "--prompt-tokens", "5",       "--new-tokens",
                    "6",          "--out",      "no.json"};
  const auto limited = [&](const std::string& limit) {
    Words all = words;
    all.insert(all.end(), {"--memory-limit", limit});
    return bench.run(all);
  };
  // The largest block, an FFN or a tile of the head, has 2.4 MB; the program 43.6 MiB.
  const Outcome refused = limited("45.5MiB");
  CHECK(refused.code == 3);
  CHECK(refused.err.empty());
  CHECK(contains(refused.out, "device 'desk': lacks "));
  CHECK(contains(refused.out, "program 43.6"));
  CHECK(contains(refused.out, "has 45.5 MiB"));
  CHECK(contains(refused.out, "with a window of 1 block"));
  CHECK_FALSE(bench.has("no.json"));
  CHECK(limited("48MiB").code == 0);
  const Json plan = bench.result("no.json");
  CHECK(plan["devices"][0]["window"]["blocks"] >= 1);

  // The same budget, written into the plan afterwards.
  Json changed = plan;
  changed["cluster"]["devices"][0]["memory_bytes"] = 45.5 * 1024 * 1024;
  bench.write("no.json", changed.dump());
  const Outcome run =
      bench.run({"run", "no.json", "--weights", "big", "--cache", "cache", "--quiet"});
  CAPTURE(run.err);
  CHECK(run.code == 1);
  CHECK(run.out.empty());
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
  CHECK(contains(run.err, "device desk"));
  CHECK(contains(run.err, " need 4"));
  CHECK(contains(run.err, "the program's 43.6"));
  CHECK(contains(run.err, "budget of 45.5 MiB"));
  CHECK_FALSE(bench.has("cache/blocks"));
}

TEST_CASE(
    "cli/plan: the program's memory counts, as a profile says or a constant where none does") {
  const Kitchen bench;
  const auto program = [&](const Words& more) {
    Words words{"plan",       "--platform", "pair.xml",        "--model", "tiny.json",
                "--strategy", "local",      "--prompt-tokens", "64",      "--new-tokens",
                "32",         "--out",      "plan.json",       "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return Json::parse(bench.good(words))["devices"][0]["program_bytes"].get<double>();
  };
  // Besides, what graphs of two steps take.
  const auto is_about = [&](const Words& more, double bytes) {
    const double all = program(more);
    CHECK(all > bytes);
    CHECK(all < bytes + 100e3 + 64 * 4096);
  };
  is_about({}, 43.6 * 1024 * 1024);
  is_about({"--memory-limit", "100MiB"}, 43.6 * 1024 * 1024);
  is_about({"--profile", "profile.json"}, 36265984.0);
  is_about({"--profile", "profile.json", "--memory-limit", "100MiB"}, 36265984.0);
  is_about({"--profile", "sofa=profile.json"}, 43.6 * 1024 * 1024);
}

TEST_CASE("cli/streaming: predicted and measured stand side by side, loads overlap computing") {
  const Cellar bench;
  // To compute a block takes about 2 ms, as an all-reduce does, to load one 4 ms.
  std::string platform = with_disk(bench.read("pair.xml"), "10MBps");
  platform = replaced(platform, "\"10GBps\"", "\"20MBps\"");
  bench.write("disks.xml", replaced(platform, "\"5GBps\"", "\"20MBps\""));
  bench.plan_on("tiny", {"--window", "3", "--retain", "none", "--partition", "1:1"});
  bench.must({"simulate", "plan.json", "--out", "predicted.json", "--trace", "p.json", "--quiet"});
  const Outcome run = bench.run({"run", "plan.json", "--weights", "tiny", "--cache", "cache",
                                 "--quiet", "--ignore-eos", "--emulate", "--pace", "nominal",
                                 "--out", "measured.json", "--trace", "m.json"});
  REQUIRE_MESSAGE(run.code == 0, run.err);
  bench.must({"compare", "predicted.json", "measured.json", "--out", "side", "--quiet"});

  const Json predicted = bench.result("predicted.json");
  const Json measured = bench.result("measured.json");
  const std::string table = bench.read("side/compare.csv");
  for (std::size_t d = 0; d < 2; ++d) {
    const Json& one = predicted["devices"][d];
    const Json& other = measured["devices"][d];
    CAPTURE(one["name"]);
    CHECK(one["bytes_loaded"] == other["bytes_loaded"]);
    for (const std::string category : {"weights", "kv_cache", "activations", "buffers"}) {
      const double a = one["peak_memory_bytes"][category].get<double>();
      const double b = other["peak_memory_bytes"][category].get<double>();
      CAPTURE(category);
      CHECK(b >= a);
      CHECK(b - a <= 4096.0);  // of the final norm, and of cache lines
    }
    CHECK(contains(table, "device," + one["name"].get<std::string>() + ",loaded,bytes,"));
  }
  CHECK(predicted["steady"]["verdict"].is_string());
  CHECK(measured["steady"]["verdict"].is_string());
  CHECK(contains(bench.read("side/trace.json"), "replayed"));

  for (const std::string name : {"p.json", "m.json"}) {
    CAPTURE(name);
    struct Interval {
      double start;
      double end;
    };
    std::map<int, std::vector<Interval>> loads;     // by process: a device
    std::map<int, std::vector<Interval>> computes;  // likewise
    const Json trace = bench.result(name);
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      const double start = event["ts"].get<double>();
      const Interval interval{start, start + event["dur"].get<double>()};
      const std::string kind = event["cat"].get<std::string>();
      if (kind == "load") loads[event["pid"].get<int>()].push_back(interval);
      if (kind == "project_qkv" || kind == "ffn_up" || kind == "ffn_down")
        computes[event["pid"].get<int>()].push_back(interval);
    }
    CHECK(loads.size() == 2);
    for (const auto& [device, list] : loads) {
      const auto overlapped = std::count_if(list.begin(), list.end(), [&](const Interval& load) {
        return std::any_of(computes[device].begin(), computes[device].end(),
                           [&](const Interval& compute) {
                             return load.start < compute.end && compute.start < load.end;
                           });
      });
      CAPTURE(list.size());
      CHECK(overlapped >= 5);
    }
  }
}

TEST_CASE("cli/plan: a window that holds all that a device would stream is remarked on") {
  const Kitchen bench;
  bench.write("disks.xml", with_disk(bench.read("pair.xml"), "100MBps"));
  // A layer a device: two blocks, and desk has the embedding and the head beside them.
  const auto planned = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"plan",       "--platform", "disks.xml", "--model", "tiny.json",
                                   "--strategy", "pipeline",   "--retain",  "none"};
    words.insert(words.end(), more.begin(), more.end());
    return bench.run(words);
  };
  CHECK(planned({"--window", "1"}).err.empty());
  const Outcome one = planned({"--window", "2"});
  CHECK(one.code == 0);
  CHECK(one.err ==
        "tandem plan: flag '--window': 2, but device 'sofa' would stream no more blocks than that: "
        "its weights all stay in memory, as with '--window all'\n");
  CHECK(planned({"--window", "2", "--quiet", "--out", "plan.json"}).err.empty());
  CHECK(planned({"--window", "2", "--release", "late"}).code == 0);
  const Outcome both = planned({"--window", "9"});
  CHECK(both.err.find("device 'desk', 'sofa' would") != std::string::npos);
  const Outcome late = planned({"--window", "9", "--release", "late"});
  CHECK(late.code == 2);
  CHECK(late.err ==
        "tandem plan: flag '--release' has no effect with '--window 9', as no device would stream "
        "more blocks than that: all weights stay in memory; leave it out, or give a smaller "
        "window\n");
}

}  // namespace tandem::test::streaming_command_test
