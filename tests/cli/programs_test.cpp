// What all programs have in common: each has its own name and its own table of commands, and nothing else differs.

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::programs_test {
namespace {

const std::vector<std::string> kPrograms{"tandem", "tandem-study"};

// The commands that `--help` lists.
std::vector<std::string> commands_of(const std::string& overview) {
  std::vector<std::string> commands;
  std::istringstream lines(overview);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  ")) commands.push_back(line.substr(2, line.find(' ', 2) - 2));
  return commands;
}

Outcome good(const Workbench& bench, const std::vector<std::string>& words) {
  Outcome outcome = bench.run(words);
  CAPTURE(words);
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  return outcome;
}

}  // namespace

TEST_CASE("cli/programs: each lists its commands, and explains each under its own name") {
  for (const std::string& program : kPrograms) {
    CAPTURE(program);
    const Workbench bench(program);
    const std::string overview = good(bench, {"--help"}).out;
    CHECK(overview == good(bench, {"help"}).out);
    CHECK(overview.starts_with("usage: " + program + " COMMAND ..."));
    CHECK(good(bench, {"--version"}).out.starts_with(program + " 0."));
    const std::vector<std::string> commands = commands_of(overview);
    CHECK(commands.size() >= 2);
    for (const std::string& command : commands) {
      CAPTURE(command);
      const std::string help = good(bench, {"help", command}).out;
      CHECK(help.starts_with("usage: " + program + " " + command + " "));
      CHECK(help == good(bench, {command, "--help"}).out);
    }
  }
}

TEST_CASE("cli/programs: a message begins with the program and refers to its help") {
  for (const std::string& program : kPrograms) {
    CAPTURE(program);
    const Workbench bench(program);
    check_refused(bench, {}, 2, program + ": no command; see '" + program + " --help'");
    check_refused(bench, {"nothing"}, 2, "see '" + program + " --help'");
    check_refused(bench, {"--version", "more"}, 2, program + ": unexpected argument 'more'");
    for (const std::string& command : commands_of(good(bench, {"--help"}).out)) {
      CAPTURE(command);
      const Outcome outcome = bench.run({command, "--no-such-flag"});
      CHECK(outcome.code == 2);
      CHECK(outcome.err.starts_with(program + " " + command + ": "));
      CHECK(outcome.err.find("see '" + program + " ") != std::string::npos);
    }
  }
}

TEST_CASE("cli/programs: tandem names the program that has propositions and experiment now") {
  const Workbench tandem;
  const Workbench study("tandem-study");
  const std::string listed = good(tandem, {"--help"}).out;
  CHECK(listed.find("tandem-study") != std::string::npos);
  for (const std::string& command : commands_of(good(study, {"--help"}).out)) {
    CAPTURE(command);
    CHECK(listed.find("\n  " + command) == std::string::npos);
    const std::string where = "run 'tandem-study " + command + "' with the same arguments";
    check_refused(tandem, {command}, 2, where);
    check_refused(tandem, {command, "--help"}, 2, where);
    check_refused(tandem, {command, "list", "--json", "--no-such-flag"}, 2, where);
    check_refused(tandem, {"help", command}, 2, where);
  }
}

}  // namespace tandem::test::programs_test
