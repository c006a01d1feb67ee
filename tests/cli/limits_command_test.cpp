// Limits that a shell sets: the resource that ran out is named, with the remedy.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::limits_command_test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The folder of a plan for two devices, and of its weights.
class Ration : public Kitchen {
 public:
  Ration() {
    must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
    plan();
  }
};

// A failure is one clear line, whatever ran out of what; an emulated device may say why beside the
// master, of each of its two channels. Nothing is left behind.
void check_clear(const Ration& bench, const Outcome& outcome, const std::string& remedy) {
  CAPTURE(outcome.err);
  const bool is_known = outcome.code == 0 || outcome.code == 1;
  CHECK(is_known);
  const auto lines = std::count(outcome.err.begin(), outcome.err.end(), '\n');
  CHECK(lines >= outcome.code);
#if !defined(__SANITIZE_ADDRESS__)
  // Where no descriptor is left, a sanitizer cannot look at objects, and adds lines that say so.
  CHECK(lines <= 3 * outcome.code);
#endif
  if (outcome.code != 0) CHECK(contains(outcome.err, remedy));
  for (const char* const vague : {"internal", "bad_alloc", "Bad file descriptor", "canceled",
                                  "same key", "check its permissions"})
    CHECK_FALSE(contains(outcome.err, vague));
  for (const std::string& name : bench.listing()) CHECK_FALSE(contains(name, "partial"));
}

const std::string kRun =
    "exec \"$TANDEM\" run plan.json --emulate --weights tiny --cache cache --pace nominal --quiet";

}  // namespace

TEST_CASE("cli/limits: too few open files are named, with how many are needed" *
          doctest::test_suite("long")) {
  const Ration bench;
  const auto limited = [&](int files, const std::string& command) {
    return bench.shell("ulimit -n " + std::to_string(files) + "; " + command);
  };
  int needed = 0;
  // With fewer the system's loader cannot open the program's libraries.
  for (int files = 5; files <= 64; files += files < 24 ? 1 : 5) {
    CAPTURE(files);
    const Outcome outcome = limited(files, kRun);
    check_clear(bench, outcome, "raise `ulimit -n`");
    check_clear(bench,
                limited(files,
                        "exec \"$TANDEM\" model shard plan.json --weights tiny --out shards "
                        "--quiet"),
                "raise `ulimit -n`");
    check_clear(bench,
                limited(files, "exec \"$TANDEM\" simulate plan.json --out predicted.json --quiet"),
                "raise `ulimit -n`");
    const std::string expected = "expected at least ";
    const std::size_t at = outcome.err.find(expected);
    if (at != std::string::npos) needed = std::stoi(outcome.err.substr(at + expected.size()));
  }
  REQUIRE(needed > 0);
  CAPTURE(needed);
  CHECK(limited(needed, kRun).code == 0);
}

TEST_CASE("cli/limits: a worker with too few open files says so and stays, or does not begin" *
          doctest::test_suite("long")) {
  const Ration bench;
  const Outcome outcome = bench.shell(
      "ulimit -n 16; exec \"$TANDEM\" worker --listen 127.0.0.1:0 --cache cache --once --quiet");
  check_clear(bench, outcome, "expected at least ");
  CHECK(outcome.code == 1);
}

TEST_CASE("cli/limits: too little address space is named" * doctest::test_suite("long")) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return;  // they reserve terabytes
#endif
  const Ration bench;
  for (int mebibytes = 60; mebibytes <= 1000; mebibytes += mebibytes < 300 ? 20 : 100) {
    CAPTURE(mebibytes);
    const std::string limit = "ulimit -v " + std::to_string(mebibytes * 1024) + "; ";
    const Outcome outcome = bench.shell(limit + kRun);
    if (contains(outcome.err, "error while loading shared libraries")) continue;
    check_clear(bench, outcome, "raise `ulimit -v`");
  }
}

TEST_CASE("cli/limits: too large a file is named") {
  const Ration bench;
  bench.write("taken.json", "taken");
  for (const char* words : {"model random --config tiny.json --out more --quiet",
                            "model shard plan.json --weights tiny --out more --quiet",
                            "simulate plan.json --evaluator analytic --out taken.json --quiet"}) {
    const Outcome outcome = bench.shell("ulimit -f 1; exec \"$TANDEM\" " + std::string(words));
    CAPTURE(outcome.err);
    CHECK(outcome.code == 1);
    CHECK(outcome.err.find("File too large") != std::string::npos);
  }
  CHECK(bench.read("taken.json") == "taken");
  // SimGrid's file in memory falls under the limit too.
  for (const char* words : {"platform klonet8", "plan --platform klonet8 --model tiny.json"}) {
    const Outcome outcome = bench.shell("ulimit -f 1; exec \"$TANDEM\" " + std::string(words));
    CAPTURE(outcome.err);
    CHECK(outcome.code == 1);
    CHECK(outcome.err.find("File too large; raise `ulimit -f`") != std::string::npos);
    CHECK(outcome.err.find("free some memory") == std::string::npos);
  }
}

}  // namespace tandem::test::limits_command_test
