// tandem testbed: what it rejects anywhere, and runs where namespaces can be made.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::testbed_command_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

// slow.xml is pair.xml with devices that leave this machine room; plan.json is of it.
class Bench : public Kitchen {
 public:
  Bench() {
    std::string slow = replaced(read("pair.xml"), "id=\"pair\"", "id=\"slow\"");
    slow = replaced(slow, "<prop id=\"tandem:memory\" value=\"4GiB\"/>",
                    "<prop id=\"tandem:memory\" value=\"4GiB\"/>\n"
                    "      <prop id=\"tandem:slowdown\" value=\"4\"/>");
    write("slow.xml", replaced(slow, "id=\"tandem:slowdown\" value=\"2\"",
                               "id=\"tandem:slowdown\" value=\"4\""));
    must(planned("slow.xml", "plan.json"));
  }

  static Words planned(const std::string& platform, const std::string& out) {
    return {"plan",   "--platform",  platform, "--model",         "tiny.json", "--strategy",
            "tensor", "--partition", "equal",  "--prompt-tokens", "5",         "--new-tokens",
            "4",      "--out",       out,      "--quiet"};
  }
};

// Why no testbed can be brought up here; empty: nothing hinders it.
std::string obstacle() {
  if (::geteuid() != 0) return "not root";
  const int tun = ::open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (tun < 0) return "no TUN device";
  ::close(tun);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::unshare(CLONE_NEWNET) == 0 ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? "" : "no network namespaces";
}

// In a namespace of their own, so that no other testbed of this machine is in the way.
constexpr const char* kAlone = "unshare --net ";

std::string memory_groups() {
  std::string found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/fs/cgroup/memory", none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("tandem-testbed-")) found += name + " ";
  }
  return found;
}

}  // namespace

TEST_CASE("cli/testbed: what cannot be emulated is rejected before anything is brought up") {
  const Bench bench;
  const auto run = [](const std::string& scenario, const std::string& plan,
                      const Words& more = {}) {
    Words words{"testbed", "run", scenario, plan, "--weights", "tiny"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  bench.must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
  const auto checked = [&](const Words& words, int code, const std::string& expected) {
    check_refused(bench, words, code, expected);
  };
  checked(run("slow.xml", "plan.json", {"--dilate", "2"}), 2, "needs '--tcp pinned'");
  checked(run("slow.xml", "plan.json", {"--tcp", "vegas"}), 1, "--tcp: unknown value 'vegas'");
  checked({"testbed", "run", "slow.xml", "plan.json", "./plan.json", "--weights", "tiny"}, 2,
          "two plans have the name 'plan'");
  checked({"testbed", "run", "slow.xml", "--weights", "tiny"}, 2, "missing argument plan.json");
  checked(run("single", "plan.json"), 1, "has 1 devices, expected 2 to 64");
  checked(run("a100-8x8", "plan.json"), 1, "carries 300 GBps");
  bench.write("other.xml", replaced(bench.read("slow.xml"), "latency=\"1ms\"", "latency=\"2ms\""));
  checked(run("other.xml", "plan.json"), 1, "differ from those of the testbed's platform");
  // One device at full and one at half speed need 1.5 of this machine.
  bench.must(Bench::planned("pair.xml", "fast.json"));
  checked(run("pair.xml", "fast.json"), 1, "--dilate 2.15");
  checked(run("slow.xml", "plan.json", {"--out", "plan.json"}), 1, "cannot make this folder");
  checked({"run", "plan.json", "--weights", "tiny", "--emulate", "--testbed", "plan.json"}, 1,
          "plan.json");
}

TEST_CASE("cli/testbed: plans run over TCP, and nothing is left behind") {
  if (const std::string why = obstacle(); !why.empty()) {
    MESSAGE("skipped: " << why << ", no testbed can be brought up here");
    return;
  }
  const Bench bench;
  const std::string groups = memory_groups();
  bench.must({"model", "random", "--config", "tiny.json", "--out", "tiny", "--quiet"});
  const std::string run_testbed =
      std::string(kAlone) +
      "\"$TANDEM\" testbed run slow.xml plan.json --weights tiny --cache cache --allow-drift "
      "--quiet ";
  SUBCASE("tokens and bytes are those of an emulated run") {
    bench.must({"run", "plan.json", "--weights", "tiny", "--emulate", "--cache", "cache", "--quiet",
                "--allow-drift", "--out", "emulated.json"});
    const Outcome outcome = bench.shell(run_testbed + "--tcp pinned --out results");
    CHECK(outcome.err.empty());
    REQUIRE(outcome.code == 0);
    const Json emulated = Json::parse(bench.read("emulated.json"));
    const Json real = Json::parse(bench.read("results/plan.json"));
    CHECK(real["kind"] == "measured");
    CHECK(real["pace"] == "measured (testbed)");
    CHECK(real["tokens"] == emulated["tokens"]);
    CHECK(real["tokens"].size() == 4);
    CHECK(real["links"] == emulated["links"]);
    CHECK(real["devices"][1]["bytes_sent"] == emulated["devices"][1]["bytes_sent"]);
    CHECK(real["devices"][1]["bytes_sent"].get<double>() > 0.0);
    const Json& environment = real["environment"];
    CHECK(environment["tcp"].get<std::string>().starts_with("pinned: cubic"));
    CHECK(environment["testbed_lost_packets"] == "0");
    CHECK(std::stoll(environment["testbed_packets"].get<std::string>()) > 100);
    // A token cannot be faster than its messages' latencies: a sum of both devices for each half of
    // each layer, and back.
    const double layers = Json::parse(bench.read("tiny.json"))["num_hidden_layers"].get<double>();
    for (const Json& time : {real["metrics"]["token_latency_s"]["p50"]})
      CHECK(time.get<double>() > layers * 2 * 2 * 1e-3);
    // One plan four ways: each column says which it is.
    bench.must({"simulate", "plan.json", "--out", "predicted.json", "--quiet"});
    bench.must({"run", "plan.json", "--weights", "tiny", "--emulate", "--pace", "nominal",
                "--cache", "cache", "--quiet", "--out", "replayed.json"});
    const Outcome compared = bench.run({"compare", "predicted.json", "replayed.json",
                                        "emulated.json", "results/plan.json", "--out", "compared"});
    const std::string head = compared.out.substr(0, compared.out.find('\n'));
    for (const char* const column :
         {"predicted ", "replayed ", "measured (emulated) ", "measured (testbed) "}) {
      CAPTURE(column);
      CHECK(head.find(column) != std::string::npos);
    }
    CHECK(compared.out.find("measured (testbed) on a testbed of network namespaces") !=
          std::string::npos);
    std::filesystem::copy(bench.folder() / "results", bench.folder() / "again");
    const Outcome twice = bench.run(
        {"compare", "emulated.json", "results/plan.json", "again/plan.json", "--out", "compared"});
    CHECK(twice.out.find("measured (testbed, again/plan.json)") != std::string::npos);
  }
  SUBCASE("a testbed that is up can be entered, and is ended by `down`") {
    const Outcome outcome = bench.shell(std::string(kAlone) + R"(sh -c '
"$TANDEM" testbed up slow.xml >up.txt 2>up.err &
tries=0
while ! grep -q "It ends" up.txt && [ $tries -lt 200 ]; do tries=$((tries + 1)); sleep 0.05; done
"$TANDEM" testbed up slow.xml 2>second.err; echo second $?
enter=$(sed -n "s/.*\(nsenter .*\)/\1/p" up.txt | head -n 1)
$enter cat /proc/net/route | grep -c tandem0
"$TANDEM" testbed down; echo down $?
wait
"$TANDEM" testbed down')");
    CAPTURE(outcome.err);
    CHECK(outcome.out == "second 1\n1\ntestbed of 'slow' ended\ndown 0\nno testbed is up\n");
    CHECK(bench.read("second.err").find("a testbed is up already, 'slow'") != std::string::npos);
    CHECK(bench.read("up.err").empty());
  }
  SUBCASE("whatever ends it, its processes end too") {
    for (const char* const signal : {"INT", "TERM", "KILL"}) {
      CAPTURE(signal);
      const Outcome outcome = bench.shell(std::string("set -m\n") + run_testbed +
                                          "--new-tokens 100 --ignore-eos >/dev/null 2>said.txt &" +
                                          R"(
pid=$!
tries=0
children() { cat /proc/$pid/task/*/children 2>/dev/null; }
while [ $(children | wc -w) -lt 2 ] && [ $tries -lt 200 ]; do tries=$((tries + 1)); sleep 0.05; done
all=$(children)
set -- $all
echo started $#
kill -)" + signal + R"( $pid
wait $pid
echo code $?
sleep 0.3
for child in $all; do
  grep -q "^State:.[^Z]" /proc/$child/status 2>/dev/null && echo left $child
done
true)");
      CAPTURE(bench.read("said.txt"));
      CHECK(outcome.out ==
            std::string("started 2\ncode ") + (std::string(signal) == "KILL" ? "137\n" : "1\n"));
    }
    // What SIGKILL has left.
    CHECK(bench.shell(std::string(kAlone) + "\"$TANDEM\" testbed down").code == 0);
  }
  SUBCASE("a device that uses all its memory is named") {
    if (!std::filesystem::exists("/sys/fs/cgroup/memory/memory.limit_in_bytes")) return;
    // Less than a worker needs to begin; the plan's own check comes later, in the master.
    Json plan = Json::parse(bench.read("plan.json"));
    Json& device = plan["cluster"]["devices"][1];
    device["memory_bytes"] = 1024.0 * 1024.0;
    const std::string name = device["name"];
    bench.write("plan.json", plan.dump());
    const Outcome outcome = bench.shell(run_testbed);
    CHECK(outcome.code == 1);
    CHECK(outcome.err.find("device '" + name + "' has used all of its memory, 1 MiB") !=
          std::string::npos);
  }
  SUBCASE("a worker that crashes is named, with its signal") {
    const Outcome outcome = bench.shell(run_testbed +
                                        "--tcp pinned --dilate 20 --out results --new-tokens 100 "
                                        "--ignore-eos >/dev/null 2>said.txt &" +
                                        R"sh(
pid=$!
tries=0
# Its children whose command line has a word; a child that has not begun yet has its parent's.
children_with() { for c in $(cat /proc/$pid/task/*/children 2>/dev/null); do
  tr '\0' ' ' </proc/$c/cmdline 2>/dev/null | grep -q -e " $1 " && echo $c; done; }
while [ -z "$(children_with --testbed)" ] && [ $tries -lt 2000 ]; do
  tries=$((tries + 1)); workers=$(children_with worker); sleep 0.01; done
# The run cannot end while its worker is stopped.
kill -STOP $workers
sleep 0.3
kill -SEGV $workers
kill -CONT $workers
wait $pid
echo code $?)sh");
    CHECK(outcome.out == "code 1\n");
    CAPTURE(bench.read("said.txt"));
    CHECK(bench.read("said.txt").find("its worker was ended by signal 11") != std::string::npos);
  }
  SUBCASE("what this machine lacks is said") {
    if (bench.shell("unshare --mount true").code != 0) return;
    const Outcome no_tun = bench.shell(
        "unshare --net --mount sh -c 'mount -t tmpfs none /dev/net && exec \"$TANDEM\" "
        "testbed up slow.xml'");
    CHECK(no_tun.code == 1);
    CHECK(no_tun.err.find("cannot open /dev/net/tun") != std::string::npos);
    if (!std::filesystem::exists("/sys/fs/cgroup/memory")) return;
    const Outcome no_groups = bench.shell(
        "unshare --net --mount sh -c 'mount -t tmpfs none /sys/fs/cgroup/memory && exec "
        "\"$TANDEM\" testbed run slow.xml plan.json --weights tiny --cache cache --allow-drift "
        "--out results'");
    CHECK(no_groups.code == 0);
    CHECK(no_groups.err.find("no memory cgroups of version 1") != std::string::npos);
    CHECK(Json::parse(bench.read("results/plan.json"))["environment"]["testbed_memory"] ==
          "not limited");
  }
  SUBCASE("a testbed that does not answer, and one that is none, block no command") {
    const Outcome stopped = bench.shell(std::string(kAlone) + R"(sh -c '
"$TANDEM" testbed up slow.xml >up.txt 2>up.err &
pid=$!
tries=0
while ! grep -q "It ends" up.txt && [ $tries -lt 200 ]; do tries=$((tries + 1)); sleep 0.05; done
kill -STOP $pid
"$TANDEM" testbed down; echo down $?
kill -KILL $pid')");
    CHECK(stopped.out == "down 1\n");
    CHECK(stopped.err.find("does not answer; end it with `kill -9 ") != std::string::npos);
  }
  SUBCASE("a configuration of `fidelity` is measured in a testbed, beside the emulated ones") {
    // Not in a namespace of its own, whose loopback device would be down for `tandem profile`.
    const std::string fidelity =
        "\"$TANDEM\" fidelity --out out --only pipeline-gpt2-q4_k --runs 1 --profile-seconds 0.1 ";
    const Outcome done = bench.shell(fidelity + "--way testbed --tcp pinned");
    CAPTURE(done.err);
    REQUIRE(done.code == 0);
    CHECK(done.out.find("in a testbed, over TCP (pinned: cubic") != std::string::npos);
    const std::string folder = bench.shell("ls out/recordings").out;
    CHECK(folder.ends_with(".testbed-pinned.json\n"));
    const Json recording = Json::parse(bench.shell("cat out/recordings/*").out);
    CHECK(recording["way"] == "testbed-pinned");
    CHECK(recording["environment"]["pace"] == "measured (testbed)");
    CHECK(recording["environment"]["tcp"].get<std::string>().starts_with("pinned: cubic"));
    CHECK(bench.run({"fidelity", "--replay", "out"}).code == 0);
    REQUIRE(bench.shell(fidelity + "--way emulated").code == 0);
    CHECK(bench.shell("ls out/recordings | wc -l").out == "2\n");
    CHECK(bench.read("out/report.html").find("Testbed: over TCP (pinned") != std::string::npos);
  }
  SUBCASE("memory groups of a process that was killed are removed, whatever has its number now") {
    std::error_code refused;
    const std::string left =
        "/sys/fs/cgroup/memory/tandem-testbed-" + std::to_string(::getpid());  // this test runs
    if (!std::filesystem::create_directory(left, refused)) return;
    CHECK(bench.shell(std::string(kAlone) + "\"$TANDEM\" testbed down").code == 0);
    CHECK_FALSE(std::filesystem::exists(left));
  }
  CHECK(memory_groups() == groups);
}

}  // namespace tandem::test::testbed_command_test
