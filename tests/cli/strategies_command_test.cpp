// tandem strategies: one table as text, Markdown and JSON.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::strategies_command_test {

TEST_CASE("cli/strategies: text, Markdown and JSON say the same of every strategy") {
  const Kitchen bench;
  const std::string table = bench.good({"strategies"});
  const std::string markdown = bench.good({"strategies", "--markdown"});
  const std::string plan = bench.good({"help", "plan"});
  const auto rows = nlohmann::ordered_json::parse(bench.good({"strategies", "--json"}));
  REQUIRE(rows.size() >= 7);
  for (const auto& row : rows) {
    CAPTURE(row.dump());
    CHECK(row.size() == 7);
    for (const auto& [key, value] : row.items()) {
      CHECK(table.find(value.get<std::string>()) != std::string::npos);
      CHECK(markdown.find(value.get<std::string>()) != std::string::npos);
    }
    CHECK(plan.find(row.at("name").get<std::string>() + " (") != std::string::npos);
  }
}

TEST_CASE("cli/plan: the name of a paper or program is answered with what corresponds to it") {
  const Kitchen bench;
  const auto refused = [&](const std::string& name, const std::string& expected) {
    check_refused(bench,
                  {"plan", "--platform", "pair.xml", "--model", "tiny.json", "--strategy", name}, 1,
                  expected);
  };
  refused("TPI-LLM",
          "'TPI-LLM', expected local, tensor, pipeline, galaxy, sp, csps, spread or auto; "
          "'--strategy tensor' corresponds to it");
  refused("prima.cpp", "; '--strategy pipeline --partition halda' corresponds to it");
  refused("exo", "; '--strategy pipeline' corresponds to it");
  check_refused(bench,
                {"sweep", "--platform", "pair.xml", "--model", "tiny.json", "--vary",
                 "plan.strategy=local,megatron", "--out", "s.csv"},
                1, "; '--strategy tensor' corresponds to it");
}

TEST_CASE("cli/strategies: one form at a time, and no arguments") {
  const Kitchen bench;
  check_refused(bench, {"strategies", "--json", "--markdown"}, 2,
                "flag '--markdown' has no effect with '--json'; leave it out");
  check_refused(bench, {"strategies", "tensor"}, 2, "unexpected argument 'tensor'");
}

TEST_CASE("cli/help: --markdown prints the flags of a command with their defaults") {
  const Kitchen bench;
  const std::string page = bench.good({"help", "model", "inspect", "--markdown"});
  CHECK(page.find("| `--prompt-tokens` | `N` | 512 | ") != std::string::npos);
  CHECK(page.find("| `--json` |  | off | print JSON |") != std::string::npos);
  const std::string worker = bench.good({"help", "worker", "--markdown"});
  CHECK(worker.find("    tandem worker --listen HOST:PORT [flags]\n") != std::string::npos);
  CHECK(worker.find("| `--listen` | `HOST:PORT` | required | ") != std::string::npos);
  check_refused(bench, {"help", "nothing", "--markdown"}, 2, "unknown command 'nothing'");
}

}  // namespace tandem::test::strategies_command_test
