// Help, version and messages of every program, which differ in its name and commands alone.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/cli_program.hpp"

namespace tandem::test::programs_test {
namespace {

constexpr std::array kPrograms{"tandem", "tandem-study"};

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

void check_overview(const Workbench& bench, const std::string& program) {
  const std::string overview = good(bench, {"--help"}).out;
  CHECK(overview == good(bench, {"help"}).out);
  CHECK(overview.starts_with("usage: " + program + " COMMAND ..."));
  CHECK(good(bench, {"--version"}).out.starts_with(program + " 0."));
}

void check_help(const Workbench& bench, const std::string& program, const std::string& command) {
  CAPTURE(command);
  const std::string help = good(bench, {"help", command}).out;
  CHECK(help.starts_with("usage: " + program + " " + command + " "));
  CHECK(help == good(bench, {command, "--help"}).out);
}

void check_messages(const Workbench& bench, const std::string& program) {
  check_refused(bench, {}, 2, program + ": no command; see '" + program + " --help'");
  check_refused(bench, {"nothing"}, 2, "see '" + program + " --help'");
  check_refused(bench, {"--version", "more"}, 2, program + ": unexpected argument 'more'");
}

void check_unknown_flag(const Workbench& bench, const std::string& program,
                        const std::string& command) {
  CAPTURE(command);
  const Outcome outcome = bench.run({command, "--no-such-flag"});
  CHECK(outcome.code == 2);
  CHECK(outcome.err.starts_with(program + " " + command + ": "));
  CHECK(outcome.err.find("see '" + program + " ") != std::string::npos);
}

void check_moved(const Workbench& tandem, const std::string& command) {
  const std::string where = "'" + command +
                            "' moved to the program tandem-study; run 'tandem-study " + command +
                            "' with the same arguments";
  CHECK(good(tandem, {"--help"}).out.find("\n  " + command) == std::string::npos);
  check_refused(tandem, {command}, 2, where);
  check_refused(tandem, {command, "--help"}, 2, where);
  check_refused(tandem, {command, "list", "--json", "--no-such-flag"}, 2, where);
  check_refused(tandem, {"help", command}, 2, where);
}

}  // namespace

TEST_CASE("cli/programs: each lists its commands, and explains each under its own name") {
  for (const char* program : kPrograms) {
    CAPTURE(program);
    const Workbench bench(program);
    check_overview(bench, program);
    const std::vector<std::string> commands = commands_of(good(bench, {"--help"}).out);
    CHECK(commands.size() >= 2);
    for (const std::string& command : commands) check_help(bench, program, command);
  }
}

TEST_CASE("cli/programs: a message begins with the program and refers to its help") {
  for (const char* program : kPrograms) {
    CAPTURE(program);
    const Workbench bench(program);
    check_messages(bench, program);
    for (const std::string& command : commands_of(good(bench, {"--help"}).out))
      check_unknown_flag(bench, program, command);
  }
}

TEST_CASE("cli/programs: tandem rejects propositions and experiment, and names tandem-study") {
  const Workbench tandem;
  CHECK(good(tandem, {"--help"}).out.find("tandem-study") != std::string::npos);
  const Workbench study("tandem-study");
  for (const char* command : {"propositions", "experiment"}) {
    CAPTURE(command);
    check_moved(tandem, command);
    good(study, {command, "--help"});
  }
}

TEST_CASE("cli/programs: tandem-study has no command of tandem") {
  const Workbench study("tandem-study");
  for (const std::string& command : commands_of(good(Workbench(), {"--help"}).out))
    check_refused(study, {command}, 2, "unknown command");
}

// One table has the commands of both builds, with and without the simulator.
TEST_CASE("cli/programs: a device's tandem names the commands it lacks, and rejects them") {
  const Workbench tandem;
  const Workbench device("tandem-device");
  const std::string overview = good(device, {"--help"}).out;
  const std::vector<std::string> here = commands_of(overview);
  std::string missing;
  for (const std::string& command : commands_of(good(tandem, {"--help"}).out)) {
    CAPTURE(command);
    if (std::ranges::find(here, command) != here.end()) {
      check_help(device, "tandem", command);
    } else {
      missing += (missing.empty() ? "" : ", ") + command;
      check_refused(device, {command}, 2, "tandem " + command + ": needs the simulator");
    }
  }
  CHECK(overview.find("no simulator: " + missing + '\n') != std::string::npos);
  for (const char* command : {"run", "worker", "profile"})
    CHECK(std::ranges::find(here, command) != here.end());
  for (const char* command : {"plan", "simulate"})
    CHECK(std::ranges::find(here, command) == here.end());
}

TEST_CASE("cli/programs: tandem help shows what everyone needs first, under headings") {
  const std::string overview = good(Workbench(), {"help"}).out;
  CHECK(overview.find("\n\nPlan, predict, run:\n  run ") != std::string::npos);
  CHECK(overview.find("  simulate ") < overview.find("\nDevices:\n"));
  CHECK(overview.find("\nDevices:\n") < overview.find("  whatif "));
}

}  // namespace tandem::test::programs_test
