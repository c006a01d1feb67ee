// What `tandem plan` remarks on in a platform file.

#include <doctest/doctest.h>

#include <string>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::platform_remarks_test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("cli/plan: a host that is slower than any computer is remarked on") {
  const Kitchen bench;
  const auto remark_of = [&](const char* platform) {
    return bench
        .run({"plan", "--platform", platform, "--model", "tiny.json", "--strategy", "tensor",
              "--prompt-tokens", "5", "--new-tokens", "4"})
        .err;
  };
  CHECK(contains(remark_of("plain"), "'Fafard' has a speed of 48.5 Mf,"));
  CHECK(!contains(remark_of("home4"), "a speed of"));
}

TEST_CASE("cli/plan: a link that is slower than any network is remarked on, as without its unit") {
  const Kitchen bench;
  const std::string pair = bench.read("pair.xml");
  const auto remark_of = [&](const char* attribute, const std::string& value) {
    const std::string name = std::string(attribute) + "=\"";
    const std::size_t begin = pair.find(name, pair.find("<link ")) + name.size();
    std::string changed = pair;
    changed.replace(begin, pair.find('"', begin) - begin, value);
    bench.write("changed.xml", changed);
    return bench
        .run({"plan", "--platform", "changed.xml", "--model", "tiny.json", "--prompt-tokens", "5",
              "--new-tokens", "4"})
        .err;
  };
  CHECK(contains(remark_of("bandwidth", "1000"), "has a bandwidth of 1 kBps, less than a modem's"));
  CHECK(contains(remark_of("latency", "200"), "has a latency of"));
  CHECK(!contains(remark_of("bandwidth", "1MBps"), "has a bandwidth"));
  CHECK(!contains(remark_of("latency", "0.2"), "has a latency"));
  static_cast<void>(remark_of("latency", "200"));  // what checks a file says so, too
  CHECK(contains(bench.run({"platform", "changed.xml"}).out, "has a latency of"));
}

}  // namespace
}  // namespace tandem::test::platform_remarks_test
