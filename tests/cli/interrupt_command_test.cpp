// Commands that start processes: whatever ends the command ends them too, at once.

#include <doctest/doctest.h>

#include <string>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::interrupt_command_test {
namespace {

// Starts the program with `words`, sends `signal` as soon as it has children, and prints "started
// N" of N children, and "left PID" of each that still runs half a second after the command's end.
std::string interrupted(const Workbench& bench, const std::string& words, const char* signal) {
  const std::string script = "\"$TANDEM\" " + words + R"( >/dev/null 2>&1 &
pid=$!
children=
tries=0
while [ -z "$children" ] && [ $tries -lt 600 ] && [ -d /proc/$pid ]; do
  children=$(cat /proc/$pid/task/$pid/children 2>/dev/null)
  tries=$((tries + 1))
  sleep 0.05
done
set -- $children
echo started $#
kill -)" + std::string(signal) +
                             R"( $pid
wait $pid
sleep 0.5
for child in $children; do
  grep -q '^State:.[^Z]' /proc/$child/status 2>/dev/null && echo left $child
done
true
)";
  return bench.shell(script).out;
}

void check_all_ended(const std::string& said) {
  CAPTURE(said);
  CHECK(said.starts_with("started "));
  CHECK(said != "started 0\n");
  CHECK(said.find("left") == std::string::npos);
}

}  // namespace

TEST_CASE("cli/interrupt: jobs of a sweep end with it") {
  const Kitchen bench;
  for (const char* signal : {"TERM", "KILL"}) {
    CAPTURE(signal);
    const std::string said =
        interrupted(bench,
                    "sweep --platform pair.xml --model tiny.json --vary "
                    "'workload.prompt_tokens=lin(1,120,120)' --set workload.new_tokens=8 --jobs 2 "
                    "--out sweep.csv --quiet",
                    signal);
    check_all_ended(said);
  }
}

TEST_CASE("cli/interrupt: the program that draws a figure ends with the command") {
  const Kitchen bench;
  bench.plan();
  bench.must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
  bench.must(
      {"simulate", "plan.json", "--evaluator", "analytic", "--out", "predicted.json", "--quiet"});
  bench.must({"run", "plan.json", "--emulate", "--weights", "tiny", "--cache", "cache", "--pace",
              "nominal", "--out", "measured.json", "--quiet"});
  for (const char* signal : {"TERM", "KILL"}) {
    CAPTURE(signal);
    check_all_ended(
        interrupted(bench, "compare predicted.json measured.json --out drawn --quiet", signal));
    for (const std::string& name : bench.listing()) CHECK(name.find(".tmp.") == std::string::npos);
  }
}

TEST_CASE("cli/interrupt: emulated devices end with the master") {
  const Kitchen bench;
  bench.plan();
  bench.must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
  for (const char* signal : {"TERM", "KILL"}) {
    CAPTURE(signal);
    check_all_ended(interrupted(
        bench, "run plan.json --emulate --weights tiny --cache cache --dilate 1000", signal));
  }
}

TEST_CASE("cli/interrupt: two signals at once are one request for the best plan so far") {
  const Kitchen bench;
  const std::string said =
      bench
          .shell(R"("$TANDEM" plan --platform a100-8x8 --model llama-3.1-8b --seconds 0 2>&1 &
pid=$!
sleep 3
kill -TERM $pid
sleep 0.2
kill -TERM $pid
wait $pid
)")
          .out;
  CAPTURE(said);
  CHECK(said.find("tandem: interrupted\n") == std::string::npos);
}

namespace {

// Ends `plan WORDS --out plan.json` once the plan is written and SIGTERM (bit 14) is blocked: while
// it is predicted, or `later` seconds later while free changes of it are tried.
std::string ended(const Kitchen& bench, const std::string& words, const std::string& later) {
  return bench
      .shell("rm -f plan.json; \"$TANDEM\" plan " + words + R"( --out plan.json >answer 2>&1 &
pid=$!
tries=0
while [ $tries -lt 1200 ]; do
  blocked=$(sed -n 's/^SigBlk:[[:space:]]*/0x/p' /proc/$pid/status 2>/dev/null)
  [ -z "$blocked" ] && break
  [ -e plan.json ] && [ $((blocked & 0x4000)) -ne 0 ] && break
  tries=$((tries + 1))
  sleep 0.05
done
sleep )" + later +
             R"(
kill -TERM $pid
wait $pid
echo "code $?"
cat answer
)")
      .out;
}

}  // namespace

TEST_CASE("cli/interrupt: what ends the search for free changes leaves the answer") {
  const Kitchen bench;
  std::string said;
  // The first may still be predicting the plan.
  for (const char* const later : {"1", "4"}) {
    said = ended(bench,
                 "--platform klonet8 --model llama-3.1-8b --dtype q4_0 --strategy tensor "
                 "--window all --seconds 0",
                 later);
    if (said.find("the prediction of the plan is left out") == std::string::npos) break;
  }
  CAPTURE(said);
  CHECK(said.starts_with("code 0\n"));
  CHECK(said.find("\nFree changes not tried, as the search ended: ") != std::string::npos);
  CHECK(said.find("\npredicted: ") != std::string::npos);
}

TEST_CASE("cli/interrupt: before the first plan there is nothing to wait for") {
  const Kitchen bench;
  // A plan of all 64 devices takes seconds; SIGTERM (bit 14) is blocked while it is made.
  const std::string said =
      bench
          .shell(R"("$TANDEM" plan --platform a100-8x8 --model llama-3.1-405b --dtype q8_0 \
  --strategy galaxy --seconds 0 >answer 2>&1 &
pid=$!
tries=0
while [ $tries -lt 1200 ]; do
  blocked=$(sed -n 's/^SigBlk:[[:space:]]*/0x/p' /proc/$pid/status 2>/dev/null)
  [ -z "$blocked" ] && break
  [ $((blocked & 0x4000)) -ne 0 ] && break
  tries=$((tries + 1))
  sleep 0.05
done
kill -TERM $pid
wait $pid
echo "code $?"
cat answer
)")
          .out;
  CHECK(said == "code 1\ntandem: interrupted before a first plan was found\n");
}

// Thousands of requests take long to predict.
TEST_CASE("cli/interrupt: what ends the prediction of a plan leaves the plan") {
  const Kitchen bench;
  const std::string words =
      "--platform pair.xml --model tiny.json --strategy local --samples 10000 --prompt-tokens 60 "
      "--new-tokens 60 --policy sequential --chunk whole --seconds 0";
  const std::string said = ended(bench, words, "0");
  CAPTURE(said);
  CHECK(said.starts_with("code 0\n"));
  CHECK(said.find("tandem plan: interrupted; the prediction of the plan is left out, 'tandem "
                  "simulate plan.json' makes it") != std::string::npos);
  CHECK(said.find("strategy local") != std::string::npos);
  CHECK(said.find("predicted: ") == std::string::npos);
  const std::string json = ended(bench, words + " --json", "0");
  CAPTURE(json);
  CHECK(json.starts_with("code 1\n"));
  CHECK(json.find('{') == std::string::npos);
}

}  // namespace tandem::test::interrupt_command_test
