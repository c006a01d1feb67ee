// tandem profile, and the threads that its profiles and runs are of.

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::profile_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A file of profiles by threads: with twice the threads everything takes half the time.
void write_profiles(const Kitchen& bench, const std::string& file) {
  Json all = {{"schema", "tandem.profiles/1"}, {"profiles", Json::array()}};
  for (const int threads : {1, 2, 4}) {
    Json profile = Json::parse(bench.read("profile.json"));
    profile["threads"] = threads;
    for (Json& rate : profile["rates"]) {
      for (Json& point : rate["points"])
        point["seconds_per_byte"] = point["seconds_per_byte"].get<double>() / threads;
    }
    all["profiles"].push_back(profile);
  }
  bench.write(file, all.dump());
}

// A profile of a program that did not tell its threads.
void write_untold(const Kitchen& bench, const std::string& file) {
  Json profile = Json::parse(bench.read("profile.json"));
  profile.erase("threads");
  bench.write(file, profile.dump());
}

// By device, the threads of the profile that a plan has chosen; 0: it tells none.
std::vector<int> planned_threads(const Kitchen& bench, const std::string& platform,
                                 const Words& more) {
  Words words{"plan", "--platform", platform, "--model", "tiny.json", "--json"};
  words.insert(words.end(), more.begin(), more.end());
  std::vector<int> threads;
  const Json plan = Json::parse(bench.good(words));
  for (const Json& device : plan["devices"])
    threads.push_back(device["profile"].value("threads", 0));
  return threads;
}

}  // namespace

TEST_CASE("cli/profile: by default with one thread and with all, kept apart") {
  const Kitchen bench;
  const Json told = Json::parse(bench.good(
      {"profile", "--model", "tiny.json", "--seconds", "0.1", "--disk", "none", "--json"}));
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  if (cores < 2) {
    CHECK(told["threads"] == 1);
    return;
  }
  REQUIRE(told["profiles"].size() == 2);
  CHECK(told["profiles"][0]["threads"] == 1);
  CHECK(told["profiles"][1]["threads"] == cores);
  for (const Json& profile : told["profiles"])
    CHECK(profile["rates"]["ffn_up"]["points"].size() >= 3);  // one token, and prompts
}

TEST_CASE("cli/profile: --check tells errors by kind, and is for readers") {
  const Kitchen bench;
  const std::string told =
      bench.good({"profile", "--model", "tiny.json", "--threads", "1", "--seconds", "0.1",
                  "--dtype", "bf16", "--disk", "none", "--check"});
  CHECK(has(told, "Predicted beside measured"));
  for (const char* kind : {"ffn_up (f32)", "ffn_up (bf16)", "attend", "norm"})
    CHECK(has(told, kind));
  for (const Words& silent :
       {Words{"--json"}, Words{"--out", "-"}, Words{"--out", "p.json", "--quiet"}}) {
    Words words{"profile", "--model", "tiny.json", "--check", "--disk", "none"};
    words.insert(words.end(), silent.begin(), silent.end());
    check_refused(bench, words, 2, "--check");
  }
}

TEST_CASE("cli/plan: of several numbers of threads, all for real devices, one for emulated ones") {
  const Kitchen bench;
  write_profiles(bench, "all.json");
  write_untold(bench, "untold.json");
  using Threads = std::vector<int>;
  const Words each{"--profile", "desk=all.json", "--profile", "sofa=all.json"};
  std::string real = bench.read("pair.xml");
  const std::string slowdown = R"(<prop id="tandem:slowdown" value="2"/>)";
  REQUIRE(has(real, slowdown));
  real.erase(real.find(slowdown), slowdown.size());
  bench.write("real.xml", real);
  // Both devices on this machine; each on its own; the sofa slowed down, so emulated.
  CHECK(planned_threads(bench, "real.xml", {"--profile", "all.json"}) == Threads{1, 1});
  CHECK(planned_threads(bench, "real.xml", each) == Threads{4, 4});
  CHECK(planned_threads(bench, "pair.xml", each) == Threads{4, 1});
  // One measured, the other nominal; one alone.
  CHECK(planned_threads(bench, "pair.xml", {"--profile", "desk=all.json"}) == Threads{4, 0});
  CHECK(planned_threads(bench, "real.xml", {"--profile", "all.json", "--devices", "sofa"}) ==
        Threads{4});
  CHECK(planned_threads(bench, "pair.xml", {"--profile", "all.json", "--threads", "2"}) ==
        Threads{2, 2});
  check_refused(bench,
                {"plan", "--platform", "pair.xml", "--model", "tiny.json", "--profile", "all.json",
                 "--threads", "3"},
                1, "measured with threads: 1, 2, 4");
  check_refused(bench, {"plan", "--platform", "pair.xml", "--model", "tiny.json", "--threads", "2"},
                2, "--threads");
  // Of a program that did not tell its threads there is one, and nothing to choose.
  CHECK(planned_threads(bench, "pair.xml", {"--profile", "untold.json"}) == Threads{0, 0});
}

TEST_CASE("cli/plan: says with how many threads devices are to compute") {
  const Kitchen bench;
  write_profiles(bench, "all.json");
  write_untold(bench, "untold.json");
  const auto printed = [&](const Words& more) {
    Words words{"plan", "--platform", "pair.xml", "--model", "tiny.json"};
    words.insert(words.end(), more.begin(), more.end());
    return bench.good(words);
  };
  CHECK(has(printed({"--profile", "all.json"}), "profiles are of 1 thread (desk, sofa): "));
  CHECK(has(printed({"--profile", "desk=all.json", "--profile", "all.json"}),
            "profiles are of 1 thread (sofa); 4 threads (desk): "));
  // Nominal ones, and those that do not tell.
  for (const Words& silent : {Words{}, Words{"--profile", "untold.json"}})
    CHECK(!has(printed(silent), "profiles are of"));
  const Json summary =
      Json::parse(printed({"--profile", "desk=all.json", "--json", "--out", "plan.json"}));
  CHECK(summary["devices"][0]["threads"] == 4);
  CHECK(summary["devices"][1]["threads"].is_null());
}

TEST_CASE("cli/plan: a file of profiles by threads that is wrong is one error") {
  const Kitchen bench;
  write_profiles(bench, "all.json");
  const auto refused = [&](const auto& change, const std::string& part) {
    Json all = Json::parse(bench.read("all.json"));
    change(all);
    bench.write("bad.json", all.dump());
    check_refused(
        bench, {"plan", "--platform", "pair.xml", "--model", "tiny.json", "--profile", "bad.json"},
        1, part);
  };
  refused([](Json& all) { all["profiles"] = Json::array(); }, "profiles");
  const std::string threads = "'profiles[1].threads' is ";
  refused([](Json& all) { all["profiles"][1]["threads"] = 1; }, threads + "1, expected a number");
  refused([](Json& all) { all["profiles"][1].erase("threads"); }, threads + "missing");
  refused([](Json& all) { all["profiles"][1]["threads"] = 0; }, threads + "0, expected");
  refused([](Json& all) { all["schema"] = "tandem.profiles/9"; }, "tandem.profiles/1");
  refused([](Json& all) { all["more"] = 1; }, "more");
  refused([](Json& all) { all["profiles"][2]["kernels"]["processor"] = "another"; },
          "profiles[2].kernels");
}

TEST_CASE("cli/run: computes with the threads of the plan's profile, and tells of others") {
  const Kitchen bench;
  write_profiles(bench, "all.json");
  bench.must({"model", "random", "--config", "tiny.json", "--out", "weights", "--quiet"});
  bench.write("ids", "1 2 3 4 5");
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--strategy", "local",
              "--profile", "desk=all.json", "--threads", "2", "--prompt-tokens", "5",
              "--new-tokens", "3", "--quiet", "--out", "plan.json"});
  Words run{"run", "plan.json", "--weights",   "weights",     "--prompt-ids",
            "ids", "--out",     "result.json", "--ignore-eos"};
  const auto environment = [&](const std::string& key) {
    return Json::parse(bench.read("result.json"))["environment"].value(key, "");
  };
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  const Outcome same = bench.run(run);
  CHECK(same.code == 0);
  CHECK(environment("threads") == std::to_string(std::min(2, cores)));
  CHECK(environment("profile_threads").empty() == (cores >= 2));
  run.insert(run.end(), {"--threads", "1"});
  const Outcome other = bench.run(run);
  CHECK(other.code == 0);
  CHECK(has(other.err, "'desk' computes with 1 thread, but its profile is of 2 threads"));
  CHECK(has(environment("profile_threads"), "profile is of 2 threads"));
  write_untold(bench, "untold.json");
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--strategy", "local",
              "--profile", "desk=untold.json", "--prompt-tokens", "5", "--new-tokens", "3",
              "--quiet", "--out", "plan.json"});
  CHECK(has(bench.run(run).err, "its profile does not tell of how many it is"));
}

TEST_CASE("cli/run: never computes with more threads than cores unless they are asked for") {
  const Kitchen bench;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  Json large = Json::parse(bench.read("profile.json"));
  large["threads"] = 1024;  // of another machine
  bench.write("large.json", large.dump());
  bench.must({"model", "random", "--config", "tiny.json", "--out", "weights", "--quiet"});
  bench.write("ids", "1 2 3 4 5");
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--strategy", "local",
              "--profile", "desk=large.json", "--prompt-tokens", "5", "--new-tokens", "3",
              "--quiet", "--out", "plan.json"});
  const Outcome run = bench.run({"run", "plan.json", "--weights", "weights", "--prompt-ids", "ids",
                                 "--out", "result.json", "--ignore-eos"});
  CHECK(run.code == 0);
  CHECK(has(run.err, "but its profile is of 1024 threads"));
  const Json environment = Json::parse(bench.read("result.json"))["environment"];
  CHECK(environment["threads"] == std::to_string(cores));
}

}  // namespace tandem::test::profile_command_test
