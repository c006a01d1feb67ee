#pragma once

// The program's commands: one file each, cli/<name>_command.cpp.

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
  std::string_view summary;  // one line of `tandem --help`
  // Results to `out`; returns the exit code (0 done, 3 the answer is no). Throws Error (exit 1),
  // Usage (exit 2).
  int (*run)(const Arguments& arguments, std::ostream& out);
};

// Runs the one of `actions` that the first of `arguments` names; `parent` is the command they
// belong to. Throws Usage, with the nearest name, if there is none; HelpRequested on --help.
int run_subcommand(std::string_view parent, std::span<const Command> actions,
                   const Arguments& arguments, std::ostream& out);

int model_command(const Arguments& arguments, std::ostream& out);
int platform_command(const Arguments& arguments, std::ostream& out);
int plan_command(const Arguments& arguments, std::ostream& out);
int simulate_command(const Arguments& arguments, std::ostream& out);
int run_command(const Arguments& arguments, std::ostream& out);
int worker_command(const Arguments& arguments, std::ostream& out);
int eval_command(const Arguments& arguments, std::ostream& out);
int compare_command(const Arguments& arguments, std::ostream& out);
int propositions_command(const Arguments& arguments, std::ostream& out);
int experiment_command(const Arguments& arguments, std::ostream& out);
int whatif_command(const Arguments& arguments, std::ostream& out);
int workload_command(const Arguments& arguments, std::ostream& out);
int sweep_command(const Arguments& arguments, std::ostream& out);
int profile_command(const Arguments& arguments, std::ostream& out);

}  // namespace tandem::cli
