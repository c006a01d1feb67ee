// Files that appear whole or not at all, whatever ends their writer.

#include "exec/weights/files/atomic_file.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>

#include "tests/exec/weights/weights_support.hpp"

namespace tandem::exec::atomic_file_test {
namespace {

using testing::names_in;
using testing::read_all;
using testing::TemporaryFolder;
using testing::write_text;
using Names = std::vector<std::string>;

TEST_CASE("exec/atomic file: whole under its name, or nothing") {
  for (const bool unnamed : {true, false}) {
    CAPTURE(unnamed);
    const TemporaryFolder folder;
    {
      AtomicFile file(folder.path(), unnamed);
      file.write("abandoned");
    }
    CHECK(names_in(folder.path()).empty());
    for (const std::string text : {"first", "second"}) {
      AtomicFile file(folder.path(), unnamed);
      file.write(text);
      AtomicFile moved = std::move(file);
      moved.commit("name");
      CHECK(read_all(folder.path() / "name") == text);
      CHECK(names_in(folder.path()) == Names{"name"});
    }
    AtomicFile file(folder.path(), unnamed);
    file.write("third");
    std::filesystem::create_directories(folder.path() / "taken");
    CHECK(testing::has(testing::error_of([&] { file.commit("taken"); }), "taken: cannot give"));
  }
}

TEST_CASE(
    "exec/atomic file: a writer's leftovers are removed by the next, a live writer's are not") {
  const TemporaryFolder folder;
  AtomicFile alive(folder.path(), /*unnamed=*/false);
  alive.write("alive");
  const Names before = names_in(folder.path());
  REQUIRE(before.size() == 1);
  {
    const AtomicFile other(folder.path(), false);
    CHECK(names_in(folder.path()).size() == 2);
  }
  CHECK(names_in(folder.path()) == before);

  const pid_t child = fork();
  if (child == 0) {
    AtomicFile killed(folder.path(), false);
    killed.write("partial");
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  CHECK(names_in(folder.path()).size() == 2);
  const AtomicFile next(folder.path());
  CHECK(names_in(folder.path()) == before);
  alive.commit("done");
  CHECK(read_all(folder.path() / "done") == "alive");
  // A file of an earlier version, and one that is none of ours.
  write_text(folder.path() / ".tandem-partial-12345", "old");
  write_text(folder.path() / ".tandem-other", "kept");
  const AtomicFile last(folder.path());
  CHECK(names_in(folder.path()).size() == 2);
}

TEST_CASE("exec/atomic file: a killed writer leaves nothing where files can do without a name") {
  const TemporaryFolder folder;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGKILL}) {
    const pid_t child = fork();
    if (child == 0) {
      std::signal(signal, SIG_DFL);
      AtomicFile killed(folder.path());
      killed.write("partial");
      kill(getpid(), signal);
      pause();
    }
    waitpid(child, nullptr, 0);
    CHECK(names_in(folder.path()).empty());
  }
}

}  // namespace
}  // namespace tandem::exec::atomic_file_test
