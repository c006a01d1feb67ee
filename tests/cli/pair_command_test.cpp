// tandem pair: two processes, a code between them, and one key afterwards.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "exec/pairing/code_agreement.hpp"
#include "tests/cli/cli_program.hpp"

namespace tandem::test::pair_command_test {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Starts a host with `flags` and $answers as its input; then $port and $code are those of it.
std::string host(const std::string& flags = "") {
  return R"sh(
    "$TANDEM" worker --generate-key home.key > key.out
    printf "$answers" | "$TANDEM" pair --listen 127.0.0.1:0 --key home.key )sh" +
         flags + R"sh( > host.out 2> host.err &
    host=$!
    for i in $(seq 100); do grep -q '^on the other' host.out && break; sleep 0.1; done
    sleep 0.1
    port=$(sed -n 's/^listening on 127.0.0.1:\([0-9]*\) .*/\1/p' host.out)
    code=$(sed -n 's/^code: //p' host.out)
  )sh";
}

}  // namespace

TEST_CASE("cli/pair: a mistyped and a right code, and both devices have one key, mode 0600") {
  if (!exec::has_code_agreement()) return;
  const Workbench bench;
  const Outcome outcome = bench.shell(host() + R"sh(
    printf '0000-0000\n%s\n' "$code" | "$TANDEM" pair --join 127.0.0.1:$port --key board.key 2> err
    echo "joined: $?"
    wait $host
    echo "host: $?"
    cmp home.key board.key && stat -c 'mode %a' board.key
  )sh");
  CAPTURE(outcome.out);
  CHECK(has(outcome.out, "board.key: the key of 127.0.0.1:"));
  CHECK(has(outcome.out, "joined: 0\nhost: 0\nmode 600\n"));
  CHECK(has(bench.read("host.out"), "paired: 127.0.0.1:"));
  CHECK(has(bench.read("host.err"), "a wrong code, 2 tries are left"));
  CHECK(has(bench.read("err"), "2 tries are left"));
}

TEST_CASE("cli/pair: three wrong codes end both, and no key is written") {
  if (!exec::has_code_agreement()) return;
  const Workbench bench;
  const Outcome outcome = bench.shell(host() + R"sh(
    yes 1111-1111 | "$TANDEM" pair --join 127.0.0.1:$port --key board.key 2> err
    echo "joined: $?"
    wait $host
    echo "host: $?"
  )sh");
  CHECK(has(outcome.out, "joined: 1\nhost: 1\n"));
  CHECK_FALSE(bench.has("board.key"));
  CHECK(has(bench.read("host.err"), "the third, so the code is void"));
  CHECK(has(bench.read("err"), "is void now"));
}

TEST_CASE("cli/pair: a key that cannot be written leaves no file, and the host knows") {
  if (!exec::has_code_agreement()) return;
  const Workbench bench;
  const Outcome outcome = bench.shell(host() + R"sh(
    (ulimit -f 0; echo "$code" | "$TANDEM" pair --join 127.0.0.1:$port --key board.key) 2>&1 | cat
    wait $host
    echo "host: $?"
  )sh");
  CAPTURE(outcome.out);
  CHECK(has(outcome.out, "cannot write"));
  CHECK(has(outcome.out, "host: 1\n"));
  CHECK_FALSE(bench.has("board.key"));
  CHECK(has(bench.read("host.err"), "did not say that it stored it"));
}

TEST_CASE("cli/pair: by fingerprint, after a guest that the person at the host rejects") {
  const Workbench bench;
  const Outcome outcome = bench.shell(R"sh(answers='n\ny\n')sh" + host("--fingerprint") + R"sh(
    for i in 1 2; do
      echo y | "$TANDEM" pair --join 127.0.0.1:$port --key board$i.key --fingerprint > join.out 2> err
      echo "joined: $?"
    done
    wait $host
    echo "host: $?"
    cmp home.key board2.key
  )sh");
  CHECK(outcome.out == "joined: 1\njoined: 0\nhost: 0\n");
  CHECK_FALSE(bench.has("board1.key"));
  const std::string shown = bench.read("join.out");
  CHECK(has(bench.read("host.out"), shown.substr(0, shown.find('\n'))));
  CHECK(has(bench.read("host.err"), "Does the device at 127.0.0.1:"));
  CHECK(has(bench.read("host.err"), "fingerprints differ"));
}

TEST_CASE("cli/pair: by fingerprint, without a person") {
  const Workbench bench;
  const Outcome outcome = bench.shell("answers=''" + host("--fingerprint") + R"sh(
    echo y | "$TANDEM" pair --join 127.0.0.1:$port --key board.key --fingerprint > join.out 2> err
    echo "joined: $?"
    wait $host
    echo "host: $?"
  )sh");
  CHECK(outcome.out == "joined: 1\nhost: 1\n");
  CHECK_FALSE(bench.has("board.key"));
  CHECK(has(bench.read("host.err"), "ended without an answer"));
}

TEST_CASE("cli/pair: strangers do not hide wrong codes, and are counted at the end") {
  if (!exec::has_code_agreement()) return;
  const Workbench bench;
  const Outcome outcome = bench.shell(host() + R"sh(
    for i in 1 2 3 4 5 6 7; do bash -c "echo x > /dev/tcp/127.0.0.1/$port"; done
    printf '0000-0000\n0000-0001\n%s\n' "$code" |
      "$TANDEM" pair --join 127.0.0.1:$port --key board.key 2> err
    wait $host
    echo "host: $?"
  )sh");
  CHECK(has(outcome.out, "host: 0\n"));
  const std::string log = bench.read("host.err");
  CAPTURE(log);
  CHECK(has(log, "a wrong code, 2 tries are left"));
  CHECK(has(log, "a wrong code, 1 try is left"));
  CHECK(has(log, "clients turned away: and 2 more"));
}

TEST_CASE("cli/pair: what it cannot do is one error, before anything is asked") {
  const Workbench bench;
  bench.write("old.key", "not looked at");
  check_refused(bench, {"pair", "--key", "k"}, 2, "'--listen' and '--join'");
  check_refused(bench, {"pair", "--key", "k", "--listen", "[::1]:1", "--join", "[::1]:1"}, 2,
                "'--listen' and '--join'");
  check_refused(bench, {"pair", "--join", "127.0.0.1:1"}, 2, "--key");
  check_refused(bench, {"pair", "--join", "127.0.0.1", "--key", "k"}, 1, "has no port");
  check_refused(bench, {"pair", "--join", "127.0.0.1:0", "--key", "k"}, 1, "1 to 65535");
  check_refused(bench, {"pair", "--join", "127.0.0.1:1", "--key", "old.key"}, 1,
                "expected a new file");
  check_refused(bench, {"pair", "--join", "127.0.0.1:1", "--key", "none/new.key"}, 1,
                "does not exist");
  check_refused(bench, {"pair", "--listen", "127.0.0.1:0", "--key", "none.key", "--fingerprint"}, 1,
                "tandem worker --generate-key");
  check_refused(bench, {"pair", "--join", "127.0.0.1:1", "--key", "k", "--fingerprint"}, 1,
                "`tandem pair --listen` listens there");
}

}  // namespace tandem::test::pair_command_test
