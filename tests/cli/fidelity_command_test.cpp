#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "model/base/csv.hpp"
#include "tests/cli/cli_program.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::test::fidelity_command_test {
namespace {

namespace fs = std::filesystem;

// The shortest there is: one device, which is this machine.
const std::string configuration_name = "local-qwen3-q8_0-x1-even-resident-p64-r4";
const std::string recording_file = "out/recordings/" + configuration_name + ".json";

std::vector<std::string> fidelity(const std::vector<std::string>& more) {
  std::vector<std::string> words{
      "fidelity",          "--out", "out", "--only", configuration_name, "--runs", "2",
      "--profile-seconds", "0.1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The recordings that come with the sources.
std::vector<fs::path> recordings() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(testing::in_sources("tests/data/fidelity")))
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  std::ranges::sort(paths);
  return paths;
}

// Copies one of them into the folder `out` of `bench`; its name.
std::string copy_one(const Workbench& bench) {
  const fs::path path = recordings().at(0);
  fs::create_directories(bench.folder() / "out");
  bench.write("out/" + path.filename().string(),
              source_file("tests/data/fidelity/" + path.filename().string()));
  return path.filename().string();
}

}  // namespace

TEST_CASE("cli/fidelity: predictions of the recordings are those recorded, or say how they moved") {
  const Workbench bench;
  const std::size_t count = recordings().size();
  CHECK(count >= 40);
  const Outcome done =
      bench.run({"fidelity", "--replay", testing::in_sources("tests/data/fidelity").string()});
  INFO(
      "to accept a change of the cost model on purpose: tandem fidelity --replay "
      "tests/data/fidelity --update");
  INFO(done.out);
  CHECK(done.err.empty());
  CHECK(done.code == 0);
  CHECK(done.out == std::to_string(count) + " recordings: every prediction is the recorded one\n");
}

TEST_CASE("cli/fidelity: recordings are of the half that is not set aside, and small") {
  std::uintmax_t bytes = 0;
  for (const fs::path& path : recordings()) bytes += fs::file_size(path);
  CHECK(bytes < 1'000'000);
  const Workbench bench;
  const Outcome listed = bench.run({"fidelity", "--list"});
  CHECK(listed.code == 0);
  for (const fs::path& path : recordings()) {
    CAPTURE(path);
    CHECK(listed.out.find(path.stem().string() + "  ") != std::string::npos);
  }
  const Outcome aside = bench.run({"fidelity", "--list", "--set-aside"});
  CHECK(aside.code == 0);
  for (const fs::path& path : recordings())
    CHECK(aside.out.find(path.stem().string() + "  ") == std::string::npos);
}

TEST_CASE("cli/fidelity: a changed prediction is an answer no, until it is accepted") {
  const Workbench bench;
  const std::string file = "out/" + copy_one(bench);
  auto json = nlohmann::ordered_json::parse(bench.read(file));
  const double recorded = json["quantities"][0]["predicted"].get<double>();
  json["quantities"][0]["predicted"] = recorded * 1.00000001;
  bench.write(file, json.dump());
  const Outcome changed = bench.run({"fidelity", "--replay", "out"});
  CHECK(changed.code == 3);
  CAPTURE(changed.out);
  CHECK(changed.out.find("1 of the predictions of 1 recordings changed") != std::string::npos);
  CHECK(changed.out.find("TTFT") != std::string::npos);
  CHECK(bench.run({"fidelity", "--replay", "out", "--update"}).code == 0);
  CHECK(bench.run({"fidelity", "--replay", "out"}).code == 0);
  CHECK(nlohmann::json::parse(bench.read(file))["quantities"][0]["predicted"].get<double>() ==
        recorded);
}

TEST_CASE("cli/fidelity: a configuration is recorded once, and the report made of it") {
  const Workbench bench;
  const Outcome first = bench.run(fidelity({}));
  CAPTURE(first.err);
  REQUIRE(first.code == 0);
  CHECK(first.out.find("1 configuration, ") != std::string::npos);
  const std::string recording = bench.read(recording_file);
  const model::Csv csv = model::parse_csv(bench.read("out/fidelity.csv"), "fidelity.csv");
  REQUIRE(csv.rows.size() == 3);
  CHECK(csv.at(0, "runs") == "2");
  CHECK(csv.at(0, "way") == "machine");
  CHECK(csv.at(2, "metric") == "memory");
  CHECK(bench.read("out/report.html").find(configuration_name) != std::string::npos);
  CHECK(bench.run({"fidelity", "--replay", "out"}).code == 0);

  const Outcome again = bench.run(fidelity({}));
  CHECK(again.code == 0);
  CHECK(again.err.empty());  // nothing was measured
  CHECK(again.out == first.out);
  CHECK(bench.read(recording_file) == recording);

  // What was run in another way is not taken for this one's.
  const std::string before = bench.read("out/report.html");
  bench.write(recording_file, replaced(recording, "\"way\":\"machine\"", "\"way\":\"other\""));
  const Outcome elsewhere = bench.run(fidelity({}));
  CHECK(elsewhere.code == 1);
  CHECK(elsewhere.err.find("run in way 'other', expected 'machine'") != std::string::npos);

  // What another build recorded is not mixed with this one's.
  bench.write(recording_file,
              replaced(recording, "\"recorder\":\"tandem ", "\"recorder\":\"tandem 0"));
  const Outcome older = bench.run(fidelity({}));
  CHECK(older.code == 1);
  CHECK(older.err.find("recorded by 'tandem 00.") != std::string::npos);
  CHECK(older.err.find("give another folder with '--out'") != std::string::npos);
  CHECK(bench.read("out/report.html") == before);
}

TEST_CASE("cli/fidelity: what is interrupted is not kept, and the same command goes on") {
  const Workbench bench;
  const Outcome cut = bench.shell("\"$TANDEM\" fidelity --out out --only " + configuration_name +
                                  " --runs 1 --profile-seconds 0.1 2>err & pid=$!\n"
                                  "while ! ls out/sittings/*/profile.json >/dev/null 2>&1 && [ -d "
                                  "/proc/$pid ]; do sleep 0.02; done\n"
                                  "kill -INT $pid; wait $pid; echo code $?; cat err");
  CHECK(cut.out.find("code 1") != std::string::npos);
  CHECK(cut.out.find("out: interrupted; what was recorded is kept") != std::string::npos);
  CHECK_FALSE(bench.has(recording_file));
  CHECK(bench.has("out/report.html"));
  CHECK(bench.run(fidelity({})).code == 0);
  CHECK(bench.has(recording_file));
}

TEST_CASE("cli/fidelity: no time, no configuration begins") {
  const Workbench bench;
  const Outcome done = bench.run({"fidelity", "--out", "out", "--seconds", "0"});
  CHECK(done.code == 0);
  CHECK(done.out.find("configurations are left") != std::string::npos);
  CHECK_FALSE(bench.has("out/sittings"));
}

TEST_CASE("cli/fidelity: folders and files that are none of its own are refused") {
  const Workbench bench;
  bench.write("file", "text");
  check_refused(bench, {"fidelity", "--out", "file"}, 1,
                "file/recordings: cannot make this folder");
  check_refused(bench, {"fidelity", "--out", "/proc/none"}, 1, "cannot make this folder");
  check_refused(bench, {"fidelity", "--replay", "none"}, 1, "none: has no recordings");
  check_refused(bench, {"fidelity", "--replay", "file"}, 1, "file: has no recordings");
  fs::create_directories(bench.folder() / "out/recordings");
  fs::create_directories(bench.folder() / "out/report.html");
  check_refused(bench, {"fidelity", "--out", "out"}, 1, "report.html: is a folder");
  fs::remove(bench.folder() / "out/report.html");
  bench.write(recording_file, "{\"schema\": \"tandem.fidelity/0\"}");
  check_refused(bench, {"fidelity", "--out", "out"}, 1, "tandem.fidelity/1");
  check_refused(bench, {"fidelity", "--replay", "out"}, 1, "tandem.fidelity/1");
  bench.write(recording_file, std::string(1000, '['));
  check_refused(bench, {"fidelity", "--out", "out"}, 1, configuration_name);
  bench.write(recording_file,
              source_file("tests/data/fidelity/" + recordings().at(0).filename().string()));
  if (recordings().at(0).stem() != configuration_name)
    check_refused(bench, {"fidelity", "--replay", "out"}, 1, "rename the file");
}

TEST_CASE("cli/fidelity: what a testbed cannot be is skipped by name, with the reason") {
  const Workbench bench;
  std::size_t run = 0;
  for (const bool aside : {false, true}) {
    std::vector<std::string> words{"fidelity", "--list", "--way", "testbed"};
    if (aside) words.emplace_back("--set-aside");
    const Outcome listed = bench.run(words);
    REQUIRE(listed.code == 0);
    std::istringstream lines(listed.out);
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      const bool skipped = line.starts_with("skipped: ");
      const bool alone = line.find("-x1-") != std::string::npos;
      const bool short_links = line.find("-0.2ms-") != std::string::npos;
      CHECK(skipped == (alone || short_links));
      if (alone) CHECK(line.ends_with("one device, which has no network"));
      if (short_links) CHECK(line.find(": testbed: links of 100 us") != std::string::npos);
      run += skipped ? 0 : 1;
    }
  }
  CHECK(run >= 40);
}

TEST_CASE("cli/fidelity: flags without an effect are refused") {
  const Workbench bench;
  check_refused(bench, {"fidelity", "--only", "nothing"}, 1, "names no configuration");
  check_refused(bench, {"fidelity", "--way", "none"}, 1, "machine");
  check_refused(bench, {"fidelity", "--only", "x8", "--way", "machine"}, 1, "no configuration");
  check_refused(bench, {"fidelity", "--runs", "0"}, 1, "--runs: '0'");
  check_refused(bench, {"fidelity", "--tcp", "pinned"}, 2, "'--tcp'");
  check_refused(bench, {"fidelity", "--way", "testbed", "--tcp", "vegas"}, 1, "'vegas'");
  check_refused(bench, {"fidelity", "--seconds", "-1"}, 1, "--seconds: '-1'");
  check_refused(bench, {"fidelity", "--update"}, 2, "without '--replay'");
  check_refused(bench, {"fidelity", "--replay", "x", "--runs", "3"}, 2, "'--runs'");
  check_refused(bench, {"fidelity", "--list", "--out", "x"}, 2, "'--out'");
}

}  // namespace tandem::test::fidelity_command_test
