// main() of every program: finds the command, maps failures to exit codes.

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <exception>
#include <iostream>

#include "cli/flags/commands.hpp"
#include "cli/flags/options.hpp"
#include "cli/version.hpp"
#include "cli/views/line_log.hpp"
#include "cli/views/standard_output.hpp"
#include "exec/kernels/instruction_sets.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::cli {
namespace {

constexpr int kDone = 0;
constexpr int kWorldWrong = 1;
constexpr int kWrongUsage = 2;
constexpr int kInternal = 70;

std::string overview() {
  const std::string name(program().name);
  return "usage: " + name + " COMMAND ...\n\n" + std::string(program().summary) + "\n\n" +
         summaries(program().commands) + "\n'" + name + " help COMMAND' explains one; '" + name +
         " --version' names the build.\n"
         "Exit codes: 0 done, 1 error in a file, flag or peer, 2 wrong usage, 3 infeasible,\n"
         "70 internal error, 141 standard output's reader has left.\n";
}

// `help [COMMAND [ACTION]] [--markdown]`; `words` are those behind `help`.
int explain(Arguments words, std::ostream& out) {
  const std::string name(program().name);
  const bool markdown = !words.empty() && words.back() == "--markdown";
  if (markdown) words.pop_back();
  if (words.empty()) {
    out << (markdown ? summaries_markdown(program().commands, name) : overview());
    return kDone;
  }
  Arguments asked(words.begin() + 1, words.end());
  asked.emplace_back("--help");
  try {
    return find_command(program().commands, words[0], name).run(asked, out);
  } catch (const HelpRequested& help) {
    out << (markdown ? help.markdown : help.what());
    return kDone;
  }
}

int run(const Arguments& words, std::ostream& out) {
  const std::string name(program().name);
  if (words.empty()) throw Usage("no command; see '" + name + " --help'");
  const Arguments rest(words.begin() + 1, words.end());
  if (words[0] == "help") return explain(rest, out);
  if (words[0] == "--help" || words[0] == "--version") {
    if (!rest.empty()) throw Usage("unexpected argument '" + rest[0] + "' after " + words[0]);
    out << (words[0] == "--version" ? name + ' ' + std::string(version()) + '\n' : overview());
    return kDone;
  }
  return find_command(program().commands, words[0], name).run(rest, out);
}

int guarded(const Arguments& words, std::ostream& out) {
  const bool named = !words.empty() && words[0].rfind('-', 0) != 0 && !words[0].empty();
  const std::string prefix =
      std::string(program().name) + (named ? ' ' + words[0] : std::string()) + ": ";
  // One line, whatever a file's name or contents brought into it.
  const auto report = [&](const std::string& message, int code) {
    // Nobody may read it, and the process shall end all the same.
    write_if_possible(STDERR_FILENO, model::one_line(prefix + message) + '\n',
                      std::chrono::seconds(2));
    return code;
  };
  try {
    int code = kDone;
    try {
      exec::choose_instruction_sets();
      code = run(words, out);
    } catch (const HelpRequested& help) {
      out << help.what();
    }
    flush_output(out);
    return code;
  } catch (const ReaderGone&) {
    return ReaderGone::kExitCode;
  } catch (const Usage& error) {
    return report(error.what(), kWrongUsage);
  } catch (const Error& error) {
    return report(error.what(), kWorldWrong);
  } catch (const std::bad_alloc& error) {
    return report(model::describe(error), kWorldWrong);
  } catch (const std::system_error& error) {
    // Refused by the system where no message of ours foresaw it: files, threads, memory maps.
    return report(model::describe(error), kWorldWrong);
  } catch (const std::exception& error) {
    return report(std::string("internal error: ") + error.what(), kInternal);
  }
}

}  // namespace
}  // namespace tandem::cli

int main(int argc, char** argv) {
  tandem::cli::occupy_standard_descriptors();
  tandem::model::raise_open_file_limit();
  // A reader that is gone is an error of write(): flush_output() tells it from others.
  std::signal(SIGPIPE, SIG_IGN);
  // So is a file that grows beyond what the shell allows.
  std::signal(SIGXFSZ, SIG_IGN);
  return tandem::cli::guarded({argv + 1, argv + argc}, std::cout);
}
