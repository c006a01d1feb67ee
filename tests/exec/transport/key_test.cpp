#include "exec/transport/key.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "exec/transport/endpoint.hpp"
#include "tests/exec/transport/transport_pair.hpp"

namespace tandem::exec::key_test {

using exec::test::contains;
using exec::test::error_of;

namespace {

struct TemporaryFolder {
  TemporaryFolder() {
    std::string name = std::filesystem::temp_directory_path() / "tandem-key-XXXXXX";
    path = ::mkdtemp(name.data());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

}  // namespace

TEST_CASE(
    "transport/key: a generated file reads back, belongs to its owner only, is not overwritten") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path / "key";
  generate_key_file(path);
  CHECK(read_key_file(path) == read_key_file(path));
  CHECK(std::filesystem::file_size(path) == 65);
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  const Key before = read_key_file(path);
  CHECK(contains(error_of([&] { generate_key_file(path); }), "expected a new file"));
  CHECK(read_key_file(path) == before);
  generate_key_file(folder.path / "other");
  CHECK(read_key_file(folder.path / "other") != before);
}

TEST_CASE("transport/key: a bad file is one error with its remedy") {
  struct Case {
    std::string what;
    std::string content;
    unsigned mode;
    std::string says;
  };
  const std::string good(64, '7');
  const std::vector<Case> cases{
      {"readable by the group", good, 0640, "chmod 600"},
      {"readable by all", good, 0604, "chmod 600"},
      {"empty", "", 0600, "0 characters"},
      {"one digit short", good.substr(1), 0600, "63 characters"},
      {"one digit long", good + "7", 0600, "more than 64"},
      {"two lines", good + "\n" + good + "\n", 0600, "more than 64"},
      {"not hexadecimal", "g" + good.substr(1), 0600, "character 1 is not hexadecimal"},
      {"not hexadecimal at the end", good.substr(1) + "-", 0600, "character 64"},
      {"binary", std::string(64, '\0'), 0600, "character 1"},
  };
  const TemporaryFolder folder;
  for (const Case& bad : cases) {
    CAPTURE(bad.what);
    const std::filesystem::path path = folder.path / "key";
    std::ofstream(path) << bad.content;
    ::chmod(path.c_str(), bad.mode);
    const std::string text = error_of([&] { static_cast<void>(read_key_file(path)); });
    CHECK(contains(text, bad.says));
    CHECK(contains(text, path.string()));
  }
  CHECK(contains(error_of([&] { static_cast<void>(read_key_file(folder.path)); }), "regular file"));
  CHECK(contains(error_of([&] { static_cast<void>(read_key_file(folder.path / "none")); }),
                 "No such file"));
  const std::filesystem::path fifo = folder.path / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(contains(error_of([&] { static_cast<void>(read_key_file(fifo)); }), "regular file"));
}

TEST_CASE("transport/key: a disk that takes half of a key leaves no file, and its reason") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path / "half.key";
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit half{.rlim_cur = 32, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &half) == 0);
  errno = 0;
  const std::string fault = error_of([&] { write_key_file(path, random_key()); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, ignored);
  CHECK(contains(fault, "cannot write: File too large"));
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("transport/key: a memory file hands the key to a child by its number") {
  const Key key = random_key();
  const int descriptor = key_memory_file(key);
  CHECK(read_key_file("/proc/self/fd/" + std::to_string(descriptor)) == key);
  ::close(descriptor);
}

TEST_CASE("transport/endpoint: host and port, and nothing else") {
  CHECK(parse_endpoint("10.0.0.7:7700", "x") == Endpoint{.host = "10.0.0.7", .port = 7700});
  CHECK(parse_endpoint("[fe80::1%eth0]:1", "x") == Endpoint{.host = "fe80::1%eth0", .port = 1});
  CHECK(parse_endpoint("laptop-2.local:65535", "x").port == 65535);
  CHECK(to_text(parse_endpoint("[::1]:80", "x")) == "[::1]:80");
  CHECK(parse_endpoint("127.0.0.1:0", "x", true).port == 0);
  for (const std::string bad :
       {"", ":", "host", "host:", ":1", "host:0", "host:65536", "host:-1", "host:1x", "host: 1",
        "ho st:1", "host/x:1", "::1:80", "[::1]", "[::1:80", "-h:1", "a:b:1", "host:99999999999"}) {
    CAPTURE(bad);
    CHECK(contains(error_of([&] { static_cast<void>(parse_endpoint(bad, "hosts line 3")); }),
                   "hosts line 3: '"));
  }
  CHECK_THROWS_AS(static_cast<void>(parse_endpoint(std::string(300, 'a') + ":1", "x")), Error);
}

}  // namespace tandem::exec::key_test
