// tandem discover: from workers to a platform, profiles and a plan.

#include <doctest/doctest.h>

#include <string>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::discover_command_test {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("cli/discover: two commands from workers to a plan, and the files are read as they are") {
  const Kitchen bench;
  const Outcome outcome = bench.shell(R"sh(
    "$TANDEM" worker --generate-key home.key > key.out
    exec 3> port
    "$TANDEM" worker --listen 127.0.0.1:0 --key home.key --cache there --threads 1 --quiet \
      --port-fd 3 2> worker.err &
    worker=$!
    exec 3>&-
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do [ -s port ] || sleep 0.3; done
    printf 'desk local\nboard 127.0.0.1:%s\n' "$(cat port)" > workers.txt
    "$TANDEM" discover --hosts workers.txt --key home.key --model tiny.json --seconds 0.2 \
      --threads 1 --cache here --out home > discover.out || exit 1
    "$TANDEM" plan --platform home/platform.xml --strategy tensor --profile home --model tiny.json \
      --out plan.json > plan.out || exit 2
    "$TANDEM" simulate plan.json > simulate.out || exit 3
    printf 'desk local\nboard 127.0.0.1:%s\ngone 127.0.0.1:1\n' "$(cat port)" > workers.txt
    "$TANDEM" discover --hosts workers.txt --key home.key --model tiny.json --seconds 0.2 \
      --threads 1 --cache here --out again > again.out 2> again.err
    echo "again: $?"
    kill $worker; wait $worker
  )sh");
  CAPTURE(outcome.err);
  CHECK(has(outcome.out, "again: 1"));
  CHECK(has(bench.read("again.err"), "gone at 127.0.0.1:1: cannot connect"));
  CHECK(has(bench.read("again.err"), "again is written without what failed, and has 2 devices"));
  for (const char* file : {"home/platform.xml", "home/hosts.txt", "home/desk.profile.json",
                           "home/board.profile.json", "again/platform.xml", "there/profiles"})
    CHECK(bench.has(file));
  CHECK(has(bench.read("home/hosts.txt"), "desk local\nboard 127.0.0.1:"));
  CHECK(has(bench.read("discover.out"),
            "next: tandem plan --platform home/platform.xml --profile home --model tiny.json"));
  CHECK(has(bench.read("plan.out"), "on home"));
  CHECK(bench.read("again/board.profile.json") == bench.read("home/board.profile.json"));
}

TEST_CASE("cli/discover: what it cannot do is one error") {
  const Kitchen bench;
  bench.write("workers.txt", "127.0.0.1:1\n");
  bench.write("empty.txt", "# none\n");
  check_refused(bench, {"discover", "--out", "home"}, 2, "'--hosts' or '--browse' is missing");
  check_refused(bench, {"discover", "--hosts", "workers.txt", "--browse", "--out", "home"}, 2,
                "'--hosts'");
  check_refused(bench, {"discover", "--browse", "--out", "home"}, 2, "'--key' is missing");
  check_refused(bench, {"discover", "--hosts", "workers.txt"}, 2, "--out");
  check_refused(bench, {"discover", "--hosts", "empty.txt", "--out", "home"}, 1,
                "empty.txt: has no line");
  check_refused(bench, {"discover", "--hosts", "none.txt", "--out", "home"}, 1, "none.txt");
  check_refused(bench, {"discover", "--hosts", "workers.txt", "--dtype", "q9", "--out", "home"}, 2,
                "'q9'");
  CHECK(bench.shell("mkdir -p taken/platform.xml").code == 0);  // known before anything is measured
  check_refused(bench, {"discover", "--hosts", "workers.txt", "--out", "taken"}, 1,
                "taken/platform.xml: is a folder");
  check_refused(bench, {"worker", "--listen", "127.0.0.1:0", "--announce"}, 1,
                "flag '--announce': without '--key'");
}

TEST_CASE("cli/plan: a folder of profiles must have one of every device") {
  const Kitchen bench;
  CHECK(bench.shell("mkdir home && cp profile.json home/desk.profile.json").code == 0);
  check_refused(bench,
                {"plan", "--platform", "pair.xml", "--model", "tiny.json", "--profile", "home",
                 "--out", "plan.json"},
                1, "home/sofa.profile.json");
  CHECK(bench.shell("cp profile.json home/sofa.profile.json").code == 0);
  bench.must({"plan", "--platform", "pair.xml", "--model", "tiny.json", "--profile", "home",
              "--out", "plan.json", "--quiet"});
}

}  // namespace tandem::test::discover_command_test
