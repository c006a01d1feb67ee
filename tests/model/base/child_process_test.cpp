#include "model/base/child_process.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <utility>

namespace tandem::model::child_process_test {
namespace {

// A child that ends with `code` once its pipe is closed here; at once without a pipe.
pid_t start(int code, Pipe* pipe) {
  const pid_t id = ::fork();
  if (id != 0) return id;
  if (pipe != nullptr) {
    pipe->writing.close();
    char byte = 0;
    while (::read(pipe->reading.number(), &byte, 1) > 0) {
    }
  }
  ::_exit(code);
}

bool exists(pid_t id) { return ::kill(id, 0) == 0; }

}  // namespace

TEST_CASE("model/child process: a status is that of its exit") {
  ChildProcess child(start(7, nullptr));
  CHECK(child.running());
  const int status = child.wait();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  CHECK_FALSE(child.running());
  CHECK(child.ended());
  CHECK_THROWS_AS(child.wait(), std::logic_error);
}

TEST_CASE("model/child process: one that nobody waits for is killed and reaped") {
  Pipe pipe = open_pipe("test");
  const pid_t id = start(0, &pipe);
  {
    ChildProcess child(id);
    CHECK_FALSE(child.ended());
    ChildProcess moved = std::move(child);
    CHECK(moved.running());
    CHECK(exists(id));
  }
  CHECK_FALSE(exists(id));
}

TEST_CASE("model/child process: an end is seen without waiting") {
  Pipe pipe = open_pipe("test");
  ChildProcess child(start(0, &pipe));
  CHECK_FALSE(child.ended());
  pipe.writing.close();
  for (int i = 0; i < 1000 && !child.ended(); ++i) ::usleep(1000);
  CHECK(child.ended());
}

TEST_CASE("model/child process: a pipe's reader sees the end when its writer is closed") {
  Pipe pipe = open_pipe("test");
  REQUIRE(::write(pipe.writing.number(), "ab", 2) == 2);
  pipe.writing.close();
  CHECK(pipe.writing.number() == -1);
  char bytes[4] = {};
  CHECK(::read(pipe.reading.number(), bytes, sizeof bytes) == 2);
  CHECK(::read(pipe.reading.number(), bytes, sizeof bytes) == 0);
}

}  // namespace tandem::model::child_process_test
