// What `tandem plan` remarks on in a platform file.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/cli_program.hpp"
#include "tests/support/source_tree.hpp"

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

TEST_CASE("cli/plan: hosts that are not used are not remarked on") {
  const Kitchen bench;
  const std::string err =
      bench
          .run({"plan", "--platform", "plain", "--model", "tiny.json", "--strategy", "tensor",
                "--prompt-tokens", "5", "--new-tokens", "4", "--devices", "Tremblay,Jupiter"})
          .err;
  CHECK(contains(err, "Tremblay, Jupiter"));
  CHECK(!contains(err, "Fafard"));
}

TEST_CASE("cli/plan: flags that are printed are words of a shell") {
  const Kitchen bench;
  const std::string home = testing::in_sources("tests/data/platforms/blanks_and_pstates.xml");
  const nlohmann::json answer =
      nlohmann::json::parse(bench
                                .run({"plan", "--platform", home, "--model", "tiny.json",
                                      "--strategy", "auto", "--prompt-tokens", "5", "--new-tokens",
                                      "4", "--evaluations", "200", "--json", "--out", "p.json"})
                                .out);
  const std::string fixed = answer.at("free_changes").at("fixed_flags");
  CHECK(contains(fixed, "--devices '"));
}

}  // namespace
}  // namespace tandem::test::platform_remarks_test
