#include "cli/fidelity/subcommands.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::cli {
namespace {

constexpr const char* kThisProgram = "/proc/self/exe";
constexpr std::size_t kKept = 8192;  // bytes of what a command says, from its end

pid_t start(std::vector<std::string> words, const model::Pipe& pipe) {
  words.insert(words.begin(), "tandem");
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t id = ::fork();
  if (id < 0)
    throw Error("fidelity: no new process: " + model::system_fault(errno, "end some processes"));
  if (id > 0) return id;
  model::end_with_parent(parent);
  // Interruption blocks what ends a program; the child is to hear it.
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(pipe.writing.number(), STDOUT_FILENO);
  ::dup2(pipe.writing.number(), STDERR_FILENO);
  ::execv(kThisProgram, arguments.data());
  ::_exit(127);
}

// All that comes through the pipe until its writers have closed it, but for all except the end.
std::string read_all(const model::Pipe& pipe) {
  std::string text;
  std::array<char, 4096> chunk{};
  for (;;) {
    const ssize_t got = ::read(pipe.reading.number(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(chunk.data(), static_cast<std::size_t>(got));
    if (text.size() > 2 * kKept) text.erase(0, text.size() - kKept);
  }
}

std::string last_words(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  const std::size_t begin = text.rfind('\n');
  return model::one_line(begin == std::string::npos ? text : text.substr(begin + 1));
}

}  // namespace

void Subcommands::run(const std::vector<std::string>& words) {
  model::Pipe pipe = model::open_pipe("fidelity");
  {
    const std::scoped_lock lock(mutex_);
    if (interrupted_) throw Interrupted();
    child_ = model::ChildProcess(start(words, pipe));
  }
  pipe.writing.close();
  const std::string said = read_all(pipe);
  int status = 0;
  {
    // Reaped under the lock, so that interrupt() never kills another process of the same number.
    const std::scoped_lock lock(mutex_);
    status = child_.wait();
  }
  if (interrupted_) throw Interrupted();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  const std::string how = WIFEXITED(status) ? "exit code " + std::to_string(WEXITSTATUS(status))
                                            : "ended by signal " + std::to_string(WTERMSIG(status));
  throw Error("tandem " + words.at(0) + ": " + how + ": " +
              (said.empty() ? "no message" : last_words(said)));
}

void Subcommands::interrupt() {
  const std::scoped_lock lock(mutex_);
  interrupted_ = true;
  if (child_.running()) child_.kill();
}

}  // namespace tandem::cli
