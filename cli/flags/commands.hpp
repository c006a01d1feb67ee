#pragma once

// Programs and their commands: one file a command, <name>_command.cpp in cli/ or cli/study/, and
// one row in the program's table.

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::cli {

// The words after the command's name.
using Arguments = std::vector<std::string>;

struct Command {
  std::string_view name;
  std::string_view summary;  // one line of `--help`; empty: not listed
  // Results to `out`; returns the exit code (0 done, 3 infeasible). Throws Error (exit 1),
  // Usage (exit 2).
  int (*run)(const Arguments& arguments, std::ostream& out);
  std::string_view group = {};  // heading above the first command of a group; empty: none
  bool available = true;        // false: this build lacks it, and `run` throws Usage
};

// What distinguishes the programs, which share main().
struct Program {
  std::string_view name;              // "tandem"
  std::string_view summary;           // lines of `--help` that say what it does
  std::span<const Command> commands;  // in the order of `--help`
};

// The program of this process. Each executable links one definition, its table of commands:
// cli/command_table.cpp or cli/study/study_command_table.cpp.
[[nodiscard]] const Program& program();

// Runs the one of `actions` that the first of `arguments` names; `parent` is the command they
// belong to. Throws Usage, with the nearest name, if there is none; HelpRequested on --help.
int run_subcommand(std::string_view parent, std::span<const Command> actions,
                   const Arguments& arguments, std::ostream& out);

}  // namespace tandem::cli
