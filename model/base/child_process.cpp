#include "model/base/child_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::model {
namespace {

int reap(pid_t id) noexcept {
  int status = 0;
  while (::waitpid(id, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

Pipe open_pipe(const std::string& subject) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(subject + ": no pipe: " + system_fault(errno, "close other programs"));
  }
  return {.reading = Descriptor(ends[0]), .writing = Descriptor(ends[1])};
}

void end_with_parent(pid_t parent) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it ended before the line above
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this == &other) return *this;
  end();
  id_ = std::exchange(other.id_, -1);
  return *this;
}

void ChildProcess::kill() const noexcept {
  if (running()) ::kill(id_, SIGKILL);
}

int ChildProcess::wait() {
  require(running(), "ChildProcess: no child to wait for");
  return reap(std::exchange(id_, -1));
}

std::optional<int> ChildProcess::status_if_ended() noexcept {
  int status = 0;
  if (!running() || ::waitpid(id_, &status, WNOHANG) == 0) return std::nullopt;
  id_ = -1;
  return status;
}

bool ChildProcess::ended() noexcept {
  static_cast<void>(status_if_ended());
  return !running();
}

void ChildProcess::end() noexcept {
  kill();
  if (running()) reap(std::exchange(id_, -1));
}

}  // namespace tandem::model
