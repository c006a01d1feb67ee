#include "cli/files/figure.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <vector>

#include "cli/files/files.hpp"
#include "model/child_process.hpp"
#include "model/error.hpp"

namespace tandem::cli {
namespace {

constexpr const char* kPython = "/usr/bin/python3";
constexpr std::string_view kRemedy =
    "; install it with 'apt-get install python3-matplotlib' (the table and CSV are complete)";

struct Outcome {
  int status = 0;
  std::string diagnostics;
};

// Runs `words`, standard output and error together into `diagnostics`; waits for the end.
Outcome run(std::vector<std::string> words) {
  model::Pipe pipe = model::open_pipe("figure");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe.writing.number(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipe.writing.number(), STDERR_FILENO);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t id = 0;
  const int failure =
      ::posix_spawn(&id, arguments[0], &actions, nullptr, arguments.data(), ::environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) throw Error(words[0] + ": " + system_message(failure) + std::string(kRemedy));
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
  const std::string word = last_line(outcome.diagnostics);
  throw Error("figure: " + path.string() + " failed: " + (word.empty() ? "no message" : word) +
              (word.find("matplotlib") == std::string::npos ? "" : std::string(kRemedy)));
}

}  // namespace tandem::cli
