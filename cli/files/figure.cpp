#include "cli/files/figure.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "cli/files/files.hpp"
#include "model/base/child_process.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::cli {
namespace {

constexpr const char* kPython = "/usr/bin/python3";
constexpr std::string_view kOnly = "the table and CSV are complete";
constexpr std::string_view kRemedy =
    "; install it with 'apt-get install python3-matplotlib' (the table and CSV are complete)";
constexpr int kNotStarted = 127;

struct Outcome {
  int status = 0;
  std::string diagnostics;
};

// Runs `words`, standard output and error together into `diagnostics`; waits for the end.
Outcome run(std::vector<std::string> words) {
  model::Pipe pipe = model::open_pipe("figure");
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t id = ::fork();
  if (id < 0)
    throw Error("figure: no new process: " + model::system_fault(errno, std::string(kOnly)));
  if (id == 0) {
    model::end_with_parent(parent);
    ::dup2(pipe.writing.number(), STDOUT_FILENO);
    ::dup2(pipe.writing.number(), STDERR_FILENO);
    ::execv(arguments[0], arguments.data());
    ::_exit(kNotStarted);
  }
  model::ChildProcess child(id);
  pipe.writing.close();
  Outcome outcome;
  std::array<char, 4096> chunk{};
  for (;;) {
    const ssize_t got = ::read(pipe.reading.number(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    outcome.diagnostics.append(chunk.data(), static_cast<std::size_t>(got));
  }
  outcome.status = child.wait();
  return outcome;
}

std::string last_line(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return text.substr(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
}

}  // namespace

void draw_figure(std::string_view script, const std::filesystem::path& csv,
                 const std::filesystem::path& stem) {
  const std::filesystem::path path = resource_folder("plots") / script;
  const Outcome outcome = run({kPython, "-B", path.string(), csv.string(), stem.string()});
  if (WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == 0) return;
  if (WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == kNotStarted)
    throw Error(std::string(kPython) + ": cannot be started" + std::string(kRemedy));
  const std::string word = last_line(outcome.diagnostics);
  throw Error("figure: " + path.string() + " failed: " + (word.empty() ? "no message" : word) +
              (word.find("matplotlib") == std::string::npos ? "" : std::string(kRemedy)));
}

}  // namespace tandem::cli
