// The free changes that `tandem plan` and `tandem whatif` list.

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"
#include "tests/support/sampled.hpp"

namespace tandem::test::free_changes_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

Words words_of(const std::string& text) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// `command` without the flags that a change replaces, and with its own.
Words changed(const Words& command, const Json& change) {
  Words words;
  const Json& gone = change.at("in_place_of");
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (std::find(gone.begin(), gone.end(), command[i]) == gone.end()) {
      words.push_back(command[i]);
      continue;
    }
    if (i + 1 < command.size() && !command[i + 1].starts_with("--")) ++i;
  }
  const Words own = words_of(change.at("flags"));
  words.insert(words.end(), own.begin(), own.end());
  return words;
}

Json planned(const Kitchen& bench, Words words) {
  words.insert(words.end(), {"--out", "p.json", "--json"});
  return Json::parse(bench.good(words));
}

// Checks that each change of the plan of `flags`, made, takes what was printed. Returns the kinds
// of flags seen.
std::size_t check_changes(const Kitchen& bench, const std::string& flags) {
  CAPTURE(flags);
  Words command = words_of(flags);
  command.insert(command.begin(), "plan");
  const Json plan = planned(bench, command);
  std::size_t checked = 0;
  for (const Json& change : plan.at("free_changes").at("changes")) {
    CAPTURE(change.dump());
    const std::string own = change.at("flags");
    if (change.at("seconds").is_null() || own.starts_with("--replicas")) continue;
    const Json made = planned(bench, changed(command, change));
    const double seconds = change.at("seconds").get<double>();
    // One device has no objective, so its plan states the time of a request, or requests' mean.
    const Json& predicted = made.at("predicted");
    double made_s = made.at("free_changes").at("planned_s").get<double>();
    if (flags.find("objective ttft") != std::string::npos)
      made_s = predicted.at("ttft_s").get<double>();
    if (flags.find("objective latency") != std::string::npos)
      made_s = predicted.at("token_latency_s").at("mean").get<double>();
    const Json& rate = predicted.at("throughput_tokens_per_s");
    const bool same =
        made_s == doctest::Approx(seconds).epsilon(1e-3) ||
        (rate.is_number() && 1.0 / rate.get<double>() == doctest::Approx(seconds).epsilon(1e-3));
    CAPTURE(made_s);
    CHECK(same);
    ++checked;
  }
  return checked;
}

const std::string kTiny = "--platform flat3 --model tandem-tiny --prompt-tokens 40 --new-tokens 6 ";

}  // namespace

TEST_CASE("cli/free changes: each, added to the command, gives the time that it promised" *
          doctest::test_suite("long")) {
  const Kitchen bench;
  testing::Sampled taken(3, testing::kTakesMinutes);
  for (const char* const strategy :
       {"local", "tensor", "pipeline", "galaxy", "sp", "csps", "spread"})
    if (taken()) CHECK(check_changes(bench, kTiny + "--seconds 0 --strategy " + strategy) > 0);
  for (const char* const flags :
       {"--strategy tensor --dtype q8_0 --partition 3:2:1", "--strategy pipeline --chunk whole",
        "--strategy pipeline --groups auto --allreduce ring",
        "--strategy pipeline --partition 3:2:1", "--strategy csps --levels 2",
        "--strategy spread --decode-moves auto --dtype f16", "--strategy tensor --devices fewest",
        "--strategy galaxy --tiles 2 --objective ttft", "--strategy tensor --head auto",
        "--strategy pipeline --samples 3 --chunk whole", "--strategy tensor --samples 3"})
    if (taken()) CHECK(check_changes(bench, kTiny + "--seconds 0 " + flags) > 0);
}

TEST_CASE("cli/free changes: those of a searched plan fix what was searched" *
          doctest::test_suite("long")) {
  const Kitchen bench;
  const std::string far = "--platform home4 --model gpt2 --prompt-tokens 40 --new-tokens 6 ";
  testing::Sampled taken(3, testing::kTakesMinutes);
  for (const std::string& base : {kTiny, far}) {
    for (const char* const flags :
         {"--strategy spread --devices auto --seconds 0",
          "--strategy pipeline --devices auto --seconds 0", "--strategy auto --seconds 0",
          "--strategy auto --evaluations 4000",
          "--strategy auto --seconds 0 --objective ttft --dtype q8_0"})
      if (taken()) static_cast<void>(check_changes(bench, base + flags));
  }
  static_cast<void>(check_changes(bench, far + "--strategy auto --seconds 0 --objective latency "
                                               "--devices desktop,laptop --master laptop"));
  static_cast<void>(check_changes(bench, kTiny + "--strategy auto --seconds 0 --samples 3"));
}

TEST_CASE("cli/free changes: the answer lists them, with their price, before what to buy") {
  const Kitchen bench;
  const std::string text = bench.good(words_of(
      "plan --platform flat3 --model tandem-tiny --prompt-tokens 200 --new-tokens 6 --dtype q8_0 "
      "--strategy tensor"));
  const std::size_t list = text.find("Free changes, each made by adding its flags");
  const std::size_t wire = text.find("  --wire-type q8_0: request ");
  const std::size_t buy = text.find("To shorten it by buying: ");
  REQUIRE(list != std::string::npos);
  CHECK(list < wire);
  CHECK(wire < buy);
  CHECK(text.find("; price in quality: numbers that travel are rounded to 8 bits") !=
        std::string::npos);
  CHECK(text.find("--head split") < buy);
  const std::string narrow = bench.good(words_of(
      "plan --platform flat3 --model tandem-tiny --prompt-tokens 200 --new-tokens 6 --dtype q8_0 "
      "--strategy tensor --wire-type q8_0 --head split"));
  CHECK(narrow.find("--wire-type q8_0: ") == std::string::npos);
  CHECK(narrow.find("--head split: ") == std::string::npos);
}

TEST_CASE("cli/free changes: many requests hear of replicas, and of who sees their text") {
  const Kitchen bench;
  const Json plan =
      planned(bench, words_of("plan --platform four-boxes --model tandem-deep --prompt-tokens 40 "
                              "--new-tokens 8 --samples 8 --objective throughput --strategy auto "
                              "--seconds 0 --dtype q8_0"));
  const Json& changes = plan.at("free_changes").at("changes");
  const auto replicas = std::ranges::find_if(
      changes, [](const Json& change) { return change.at("flags") == "--replicas auto"; });
  REQUIRE(replicas != changes.end());
  CHECK(replicas->at("price") == "privacy");
  const Json made = Json::parse(bench.good(words_of(
      "plan --platform four-boxes --model tandem-deep --prompt-tokens 40 --new-tokens 8 "
      "--samples 8 --objective throughput --strategy auto --seconds 0 --dtype q8_0 --replicas auto "
      "--out folder --json")));
  bench.must({"simulate", "folder", "--out", "joined.json", "--quiet"});
  const double rate = Json::parse(bench.read("joined.json"))
                          .at("metrics")
                          .at("throughput_tokens_per_s")
                          .get<double>();
  CHECK(1.0 / rate == doctest::Approx(replicas->at("seconds").get<double>()).epsilon(1e-3));
  CHECK(made.at("replicas").size() > 1);
}

TEST_CASE("cli/free changes: a search to the end tries all of them") {
  const Kitchen bench;
  for (const char* const more : {"--strategy tensor", "--strategy auto",
                                 "--strategy auto --samples 2 --objective throughput"}) {
    CAPTURE(more);
    const Json plan = planned(bench, words_of("plan --platform pair.xml --model tiny.json "
                                              "--prompt-tokens 5 --new-tokens 4 --seconds 0 " +
                                              std::string(more)));
    CHECK(plan.at("free_changes").at("not_tried").empty());
    CHECK_FALSE(plan.at("free_changes").at("changes").empty());
  }
}

TEST_CASE("cli/free changes: of a plan file, with what makes the plan anew") {
  const Kitchen bench;
  const std::string base =
      "plan --platform flat3 --model tandem-tiny --prompt-tokens 40 "
      "--new-tokens 6";
  for (const char* const strategy : {"tensor", "pipeline", "galaxy", "csps", "spread"}) {
    CAPTURE(strategy);
    bench.must(words_of(base + " --out plan.json --quiet --strategy " + strategy));
    const Json answer = Json::parse(bench.good({"whatif", "plan.json", "--json"}));
    const Json& free = answer.at("free_changes");
    CHECK(free.at("unchanged_s") == answer.at("unchanged_s"));
    // A nominal profile has rates for whatever a change asks for.
    for (const Json& change : answer.at("changes"))
      CHECK(change.at("obstacle").dump().find("has no rate") == std::string::npos);
    std::size_t checked = 0;
    for (const Json& change : free.at("changes")) {
      CAPTURE(change.dump());
      if (change.at("seconds").is_null()) continue;
      const Json made = planned(bench, changed(words_of(base), change));
      CHECK(made.at("free_changes").at("planned_s").get<double>() ==
            doctest::Approx(change.at("seconds").get<double>()).epsilon(1e-3));
      ++checked;
    }
    CHECK(checked > 0);
  }
}

}  // namespace tandem::test::free_changes_command_test
