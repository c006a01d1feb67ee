// Profiles of other kernels than the program's: what is predicted with them is told of.

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/kernels/kernels_here.hpp"
#include "tests/cli/cli_program.hpp"

namespace tandem::test::outdated_profiles_command_test {
namespace {

using tandem::exec::kKernelGeneration;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string environment(const Kitchen& bench, const std::string& file) {
  return Json::parse(bench.read(file)).at("environment").value("outdated_profiles", "");
}

// Both devices' profiles: of a program that does not tell its kernels, or of a later one.
void write_profiles(const Kitchen& bench) {
  Json profile = Json::parse(bench.read("profile.json"));
  profile["kernels"]["generation"] = kKernelGeneration + 1;
  bench.write("later.json", profile.dump());
  profile.erase("kernels");
  bench.write("older.json", profile.dump());
}

const Words kPlan{"plan",      "--platform",      "pair.xml",  "--model",         "tiny.json",
                  "--profile", "desk=older.json", "--profile", "sofa=later.json", "--prompt-tokens",
                  "5",         "--new-tokens",    "4",         "--partition",     "1:1",
                  "--out",     "plan.json"};
const std::string kFaults =
    "device 'desk': measured by a tandem that did not say with which kernels; device 'sofa': "
    "measured with kernels of generation " +
    std::to_string(kKernelGeneration + 1) + ", newer than this program's " +
    std::to_string(kKernelGeneration) + ": predicted times";

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("cli/outdated profiles: plan, simulate and whatif say so in one line, unless quiet") {
  const Kitchen bench;
  write_profiles(bench);
  const auto one_line = [&](const Words& words, const std::string& command) {
    const Outcome told = bench.run(words);
    CAPTURE(told.err);
    CHECK(told.code == 0);
    CHECK(has(told.err, "tandem " + command + ": " + kFaults));
    CHECK(has(told.err, "`tandem profile`"));
    CHECK(std::count(told.err.begin(), told.err.end(), '\n') == 1);
  };
  one_line(kPlan, "plan");
  const Words simulate{"simulate", "plan.json", "--out", "predicted.json"};
  one_line(simulate, "simulate");
  CHECK(has(environment(bench, "predicted.json"), kFaults));
  one_line({"whatif", "plan.json", "--evaluator", "analytic"}, "whatif");
  bench.must(with(kPlan, {"--quiet"}));
  bench.must(with(simulate, {"--quiet"}));
  CHECK(has(environment(bench, "predicted.json"), kFaults));
}

TEST_CASE("cli/outdated profiles: of a device that is left out, too, as it was compared by it") {
  const Kitchen bench;
  write_profiles(bench);
  const Outcome told = bench.run({"plan", "--platform", "pair.xml", "--model", "tiny.json",
                                  "--profile", "desk=profile.json", "--profile", "sofa=older.json",
                                  "--devices", "fewest", "--out", "plan.json"});
  CAPTURE(told.err);
  CHECK(told.code == 0);
  CHECK(Json::parse(bench.read("plan.json"))["devices"].size() == 1);
  CHECK(has(told.err, "device 'sofa': measured by a tandem that did not say"));
}

TEST_CASE("cli/outdated profiles: nothing is said of this program's kernels, nor of nominal ones") {
  const Kitchen bench;
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--profile", "profile.json",
              "--out", "plan.json"});
  bench.must({"simulate", "plan.json", "--out", "predicted.json"});
  CHECK(environment(bench, "predicted.json").empty());
  bench.plan();
  bench.must({"simulate", "plan.json", "--out", "predicted.json"});
  CHECK(environment(bench, "predicted.json").empty());
}

TEST_CASE("cli/outdated profiles: a measured one is this program's, with the instruction sets") {
  const Kitchen bench;
  bench.must({"profile", "--model", "tiny.json", "--threads", "1", "--seconds", "0.1", "--disk",
              "none", "--out", "here.json", "--quiet"});
  CHECK(Json::parse(bench.read("here.json"))["kernels"]["generation"] == kKernelGeneration);
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--profile", "here.json",
              "--prompt-tokens", "1", "--quiet", "--out", "plan.json"});
  bench.must({"simulate", "plan.json", "--quiet", "--out", "predicted.json"});
  CHECK(environment(bench, "predicted.json").empty());
#if defined(__x86_64__)
  const Words words{"simulate", "plan.json", "--quiet", "--out", "predicted.json"};
  const std::string out = (bench.folder() / "out").string();
  CHECK(bench.run_into(out, words, {"TANDEM_INSTRUCTIONS=plain"}).code == 0);
  CHECK(has(environment(bench, "predicted.json"), "but on this processor the program uses "));
#endif
}

TEST_CASE("cli/outdated profiles: of the reference kernels, unless the run uses them, too") {
  const Kitchen bench;
  bench.must({"profile", "--model", "tiny.json", "--threads", "1", "--seconds", "0.1", "--disk",
              "none", "--kernels", "eigen", "--out", "eigen.json", "--quiet"});
  const std::string sets = Json::parse(bench.read("eigen.json"))["kernels"]["instruction_sets"];
  CHECK(sets.starts_with("Eigen "));
  bench.must({"plan", "--model", "tiny.json", "--platform", "pair.xml", "--profile", "eigen.json",
              "--prompt-tokens", "1", "--new-tokens", "2", "--out", "plan.json"});
  bench.must({"simulate", "plan.json", "--out", "predicted.json"});
  CHECK(environment(bench, "predicted.json").empty());
  bench.must({"model", "random", "--config", "tiny.json", "--out", "weights", "--quiet"});
  bench.write("ids", "1\n");
  for (const std::string kernels : {"tuned", "eigen"}) {
    bench.must({"run", "plan.json", "--weights", "weights", "--emulate", "--pace", "nominal",
                "--prompt-ids", "ids", "--ignore-eos", "--kernels", kernels, "--out",
                "measured.json", "--quiet"});
    CHECK(has(environment(bench, "measured.json"), "measured with " + sets + ", but on this ") ==
          (kernels == "tuned"));
  }
}

TEST_CASE("cli/outdated profiles: runs say so, of remote devices what their workers remark") {
  const Kitchen bench;
  write_profiles(bench);
  bench.must(with(kPlan, {"--quiet"}));
  bench.must({"model", "random", "--config", "tiny.json", "--out", "weights", "--quiet"});
  bench.write("ids", "1 2 3 4 5\n");
  const std::string run =
      "\"$TANDEM\" run plan.json --weights weights --cache cache --prompt-ids ids --ignore-eos "
      "--new-tokens 2 --out measured.json ";
  const Outcome emulated = bench.shell(run + "--emulate --pace nominal 2>&1 >text");
  CHECK(emulated.code == 0);
  CHECK(has(emulated.out, "tandem: " + kFaults));
  CHECK(has(environment(bench, "measured.json"), kFaults));
  CHECK(emulated.out.find(kFaults) == emulated.out.rfind(kFaults));  // once

  const Outcome remote = bench.shell(
      "\"$TANDEM\" worker --listen 127.0.0.1:0 --once --threads 1 --cache cache >port 2>said & "
      "while ! grep -q listening port; do sleep 0.01; done; "
      "echo sofa $(sed 's/.* on //' port) >hosts; " +
      run + "--hosts hosts 2>&1 >text; code=$?; wait; exit $code");
  CAPTURE(remote.out);
  CHECK(remote.code == 0);
  const std::string desk = "device 'desk': measured by a tandem that did not say";
  const std::string sofa = "device 'sofa': measured with kernels of generation ";
  for (const std::string& told : {remote.out, environment(bench, "measured.json")}) {
    CHECK(has(told, desk));
    CHECK(has(told, sofa));
  }
  CHECK(has(bench.read("said"), "tandem worker: " + sofa));
  CHECK(!has(bench.read("said"), "desk"));
}

}  // namespace tandem::test::outdated_profiles_command_test
