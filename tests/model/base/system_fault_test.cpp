#include "model/base/system_fault.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "model/base/error.hpp"

namespace tandem::test::system_fault_test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// What `body` returns in a child process whose `resource` is limited to `limit`.
std::string under(decltype(RLIMIT_NOFILE) resource, rlim_t limit,
                  const std::function<std::string()>& body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit both{limit, limit};
    std::string text = ::setrlimit(resource, &both) == 0 ? body() : "no limit could be set";
    const ssize_t written = ::write(ends[1], text.data(), text.size());
    ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text(4096, '\0');
  const ssize_t got = ::read(ends[0], text.data(), text.size());
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return text;
}

}  // namespace

TEST_CASE("model/system fault: names the resource, its limit and how to raise it") {
  CHECK(model::system_fault(ENOENT, "check the path") ==
        "No such file or directory; check the path");
  CHECK(under(RLIMIT_NOFILE, 40, [] { return model::system_fault(EMFILE, "check the path"); }) ==
        "Too many open files; this process may open 40: raise `ulimit -n`");
  const std::string memory = under(RLIMIT_AS, rlim_t{1} << 40,
                                   [] { return model::system_fault(ENOMEM, "check the path"); });
  CHECK(contains(memory, "Cannot allocate memory; "));
  CHECK(contains(memory, "raise `ulimit -v`"));
  CHECK(contains(under(RLIMIT_NPROC, 4000, [] { return model::system_fault(EAGAIN, ""); }),
                 "no new thread or process; this user may have 4000: raise `ulimit -u`"));
  for (const int error : {EMFILE, ENFILE, ENOMEM}) CHECK(model::is_exhaustion(error));
  for (const int error : {0, ENOENT, EACCES, EAGAIN}) CHECK_FALSE(model::is_exhaustion(error));
}

TEST_CASE("model/system fault: exceptions of the library say what ran out") {
  CHECK(contains(model::describe(std::bad_alloc()), "not enough memory; "));
  CHECK_FALSE(contains(model::describe(std::bad_alloc()), "bad_alloc"));
  const std::system_error no_thread(
      std::make_error_code(std::errc::resource_unavailable_try_again));
  CHECK(contains(model::describe(no_thread), "raise `ulimit -u`"));
  const std::system_error no_file(EMFILE, std::system_category(), "open");
  CHECK(contains(model::describe(no_file), "raise `ulimit -n`"));
  CHECK(model::describe(Error("as it is")) == "as it is");
  CHECK(model::describe(std::runtime_error("as it is")) == "as it is");
}

TEST_CASE("model/system fault: files that are open count against the limit") {
  const auto asked = [](int opened, std::uint64_t more) {
    for (int i = 0; i < opened; ++i) static_cast<void>(::open("/dev/null", O_RDONLY));
    std::uint64_t open = 0;
    for (int file = 0; file < 64; ++file) open += ::fcntl(file, F_GETFD) >= 0 ? 1 : 0;
    try {
      model::require_open_files(64 - open, "as many as there are");
      model::require_open_files(more, "a test");
      return std::string("enough");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  CHECK(under(RLIMIT_NOFILE, 64, [&] { return asked(0, 0); }) == "enough");
  CHECK(under(RLIMIT_NOFILE, 64, [&] { return asked(10, 0); }) == "enough");
  const std::string refused = under(RLIMIT_NOFILE, 64, [&] { return asked(0, 100); });
  CHECK(contains(refused, "open files: this process may open 64, expected at least 1"));
  CHECK(contains(refused, " for a test; raise `ulimit -n`"));
}

}  // namespace tandem::test::system_fault_test
