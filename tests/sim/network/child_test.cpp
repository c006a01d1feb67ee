#include "sim/network/child.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::sim::child_test {
namespace {

using Send = std::function<void(Bytes)>;

std::string error_of(const std::function<void(const Send&)>& body,
                     std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
  try {
    run_in_child({.subject = "child", .timeout = timeout}, body, [](Bytes) {});
  } catch (const Error& e) {
    return e.what();
  }
  return "none";
}

int open_files() {
  int count = 0;
  for (int fd = 0; fd < 256; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("sim/child: what it sends arrives whole and in order, also beyond a pipe and a frame") {
  std::vector<std::byte> sent((std::size_t{1} << 24) + 12345);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 % 251);
  std::vector<std::byte> received;
  run_in_child(
      {.subject = "child", .timeout = {}},
      [&](const Send& send) {
        send(Bytes(sent).first(1));
        send({});
        send(Bytes(sent).subspan(1));
      },
      [&](Bytes bytes) { received.insert(received.end(), bytes.begin(), bytes.end()); });
  CHECK(received == sent);
}

TEST_CASE("sim/child: one that hangs is ended at the timeout") {
  const std::string error = error_of(
      [](const Send&) {
        for (;;) ::pause();
      },
      std::chrono::milliseconds(50));
  CHECK(error.find("no answer within 50 ms") != std::string::npos);
}

TEST_CASE("sim/child: one that exits, aborts or crashes is an error with its last words") {
  CHECK(error_of([](const Send&) { std::exit(0); }) ==
        "child: SimGrid's process exited with 0 and said: nothing");
  const std::string aborted = error_of([](const Send&) {
    std::puts("one");
    std::fputs("two\n\x1b[31m", stderr);
    std::fflush(stdout);
    std::signal(SIGABRT, SIG_DFL);
    std::abort();
  });
  CHECK(aborted.find("signal 6") != std::string::npos);
  CHECK(aborted.find("two") != std::string::npos);
  CHECK(aborted.find('\x1b') == std::string::npos);
  CHECK(aborted.find('\n') == std::string::npos);
}

TEST_CASE("sim/child: a receiver that throws ends the child, no file or process is left") {
  const int before = open_files();
  for (int i = 0; i < 20; ++i) {
    CHECK_THROWS_AS(run_in_child(
                        {.subject = "child", .timeout = {}},
                        [](const Send& send) {
                          const std::vector<std::byte> bytes(1000000);
                          for (;;) send(bytes);
                        },
                        [](Bytes) { throw std::runtime_error("enough"); }),
                    std::runtime_error);
  }
  CHECK(open_files() == before);
}

}  // namespace tandem::sim::child_test
