// Replicas behind a real HAProxy, with a real client (curl), as a user would.

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"
#include "tests/serve/self_signed.hpp"

namespace tandem::test::haproxy_test {
namespace {

using Json = nlohmann::json;

constexpr const char* kToken = "0123456789abcdef";

// Ports are those that the servers found; HAProxy's is drawn.
constexpr const char* kStart = R"sh(
pids=; trap 'kill $pids 2>/dev/null; wait' EXIT
for n in 1 2; do
  "$TANDEM" serve folder/replica-$n.json --weights tandem-tiny --emulate --cache cache --quiet --listen 127.0.0.1:0 \
    --token token --tls-cert server.pem --tls-key server.key >out-$n 2>err-$n &
  pids="$pids $!"; eval pid_$n=$!
done
for n in 1 2; do
  i=0; until grep -q serving out-$n || [ $i -gt 1200 ]; do sleep 0.05; i=$((i + 1)); done
  export TANDEM_NAME_$n=localhost TANDEM_REPLICA_$n=127.0.0.1:$(sed -n 's|.*https://127.0.0.1:\([0-9]*\),.*|\1|p' out-$n)
done
export TANDEM_CA=${ca:-server.pem}
port=$((20000 + $$ % 20000)); export TANDEM_LISTEN=127.0.0.1:$port
haproxy -f folder/haproxy.cfg >proxy.log 2>&1 & pids="$pids $!"
url=http://127.0.0.1:$port
i=0; until curl --silent --output /dev/null $url/health || [ $i -gt 200 ]; do sleep 0.05; i=$((i + 1)); done
get() { path=$1; shift; curl --silent --header "Authorization: Bearer $(cat token)" "$@" $url/$path; echo; }
)sh";

// Two planned replicas of tandem-tiny, a certificate, and a script that starts both and HAProxy.
class Replicas : public Workbench {
 public:
  Replicas() {
    const testing::SelfSigned pem;
    write("server.pem", pem.certificate);
    write("server.key", pem.key);
    write("other.pem", testing::SelfSigned().certificate);
    write("token", kToken);
    write("start.sh", kStart);
    const Outcome plan = shell(
        "\"$TANDEM\" plan --platform home4 --devices desktop,laptop --model tandem-tiny --samples "
        "4 "
        "--prompt-tokens 60 --new-tokens 20 --replicas 2 --dispatch leastconn --out folder "
        "--quiet");
    CAPTURE(plan.err);
    REQUIRE(plan.code == 0);
  }
  // Runs `script` behind the proxy; in it, `get PATH WORDS...` is curl with the token.
  [[nodiscard]] Outcome behind(const std::string& script) const {
    return shell(". ./start.sh\n" + script);
  }
};

bool has_haproxy(const Workbench& bench) {
  if (bench.shell("command -v haproxy && command -v curl").code == 0) return true;
  MESSAGE("skipped: no haproxy or curl here, replicas cannot be shown behind it; install haproxy");
  return false;
}

// The first device of each line of /v1/cluster.
std::vector<std::string> devices(const std::string& lines) {
  std::vector<std::string> names;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = lines.find('\n', begin)) != std::string::npos; begin = end + 1) {
    CAPTURE(lines);
    names.push_back(Json::parse(lines.substr(begin, end - begin))["devices"][0]["name"]);
  }
  return names;
}

bool all_equal(const std::vector<std::string>& names) {
  return std::ranges::adjacent_find(names, std::ranges::not_equal_to()) == names.end();
}

}  // namespace

TEST_CASE("cli/haproxy: the configuration has no secret, and verifies every replica") {
  const Replicas bench;
  const std::string config = bench.read("folder/haproxy.cfg");
  CHECK(config.find(kToken) == std::string::npos);
  CHECK(config.find("balance leastconn") != std::string::npos);
  CHECK(config.find("presetenv TANDEM_REPLICA_1 ") != std::string::npos);
  CHECK(config.find("presetenv TANDEM_REPLICA_2 ") != std::string::npos);
  std::size_t servers = 0;
  for (std::size_t at = 0; (at = config.find("    server ", at)) != std::string::npos; ++at) {
    ++servers;
    const std::string line = config.substr(at, config.find('\n', at) - at);
    CHECK(line.find("ssl verify required ca-file") != std::string::npos);
    CHECK(line.find("verifyhost") != std::string::npos);
  }
  CHECK(servers == 2);
  if (!has_haproxy(bench)) return;
  const Outcome checked = bench.shell(
      "TANDEM_REPLICA_1=127.0.0.1:1 TANDEM_REPLICA_2=127.0.0.1:2 TANDEM_CA=server.pem haproxy -c "
      "-f folder/haproxy.cfg 2>&1");
  CAPTURE(checked.out);
  CHECK(checked.code == 0);
  // A name that does not resolve stops nothing.
  const Outcome unknown = bench.shell(
      "TANDEM_REPLICA_1=127.0.0.1:1 TANDEM_REPLICA_2=no-such-host.invalid:2 TANDEM_CA=server.pem "
      "haproxy -c -f folder/haproxy.cfg 2>&1");
  CAPTURE(unknown.out);
  CHECK(unknown.code == 0);
  // Words behind the address are options of the listener, which are not ignored.
  const Outcome absent = bench.shell(
      "TANDEM_LISTEN='127.0.0.1:1 ssl crt absent.pem' TANDEM_REPLICA_1=127.0.0.1:1 "
      "TANDEM_REPLICA_2=127.0.0.1:2 TANDEM_CA=server.pem haproxy -c -f folder/haproxy.cfg 2>&1");
  CAPTURE(absent.out);
  CHECK(absent.code != 0);
  CHECK(absent.out.find("absent.pem") != std::string::npos);
}

TEST_CASE("cli/haproxy: two replicas answer, and conversations stay with one") {
  const Replicas bench;
  if (!has_haproxy(bench)) return;
  const Outcome outcome = bench.behind(R"sh(
curl --silent --output /dev/null --write-out '%{http_code}\n' $url/v1/models >refused
for i in 1 2 3 4; do get v1/cluster; done >turns
for i in 1 2 3 4; do get v1/cluster --header 'X-Tandem-Conversation: a'; done >header
get v1/cluster --output /dev/null --dump-header - | grep -i set-cookie | sed 's/.*TANDEM_REPLICA=\([^;]*\).*/\1/' >cookie
for i in 1 2 3 4; do get v1/cluster --cookie "TANDEM_REPLICA=$(cat cookie)"; done >page
for i in 1 2; do
  get v1/completions --header 'Content-Type: application/json' --header "X-Tandem-Conversation: b$i" \
    --data '{"prompt": "The red lamp is in the attic. Question: Where is the red lamp? Answer:", "max_tokens": 6, "temperature": 0}'
done >answers
kill $pid_1; wait $pid_1
for i in 1 2 3; do get v1/cluster --header 'X-Tandem-Conversation: a'; done >left
)sh");
  CAPTURE(outcome.err);
  CAPTURE(bench.read("proxy.log"));
  REQUIRE(outcome.code == 0);
  CHECK(bench.read("refused") == "401\n");  // of a replica, which needs the token
  const std::vector<std::string> turns = devices(bench.read("turns"));
  REQUIRE(turns.size() == 4);
  CHECK(turns[0] != turns[1]);
  CHECK(turns[0] == turns[2]);
  CHECK(turns[1] == turns[3]);
  for (const char* const kept : {"header", "page"}) {
    CAPTURE(kept);
    const std::vector<std::string> names = devices(bench.read(kept));
    CHECK(names.size() == 4);
    CHECK(all_equal(names));
  }
  CHECK(bench.read("cookie").starts_with("replica-"));
  const std::string answers = bench.read("answers");
  const std::size_t half = answers.find('\n') + 1;
  const auto text = [](const std::string& answer) {
    return Json::parse(answer)["choices"][0]["text"].get<std::string>();
  };
  CHECK(text(answers.substr(0, half)) == text(answers.substr(half)));
  CHECK(all_equal(devices(bench.read("left"))));
}

TEST_CASE("cli/haproxy: replicas whose certificate is another's get no request") {
  const Replicas bench;
  if (!has_haproxy(bench)) return;
  const Outcome outcome = bench.shell(R"sh(ca=other.pem; . ./start.sh
get v1/cluster --output /dev/null --write-out '%{http_code}')sh");
  CHECK(outcome.out == "503\n");
}

}  // namespace tandem::test::haproxy_test
