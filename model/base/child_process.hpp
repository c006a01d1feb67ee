#pragma once

// Processes that this one starts, and what it hears from them: whatever happens here, none is left
// behind. Starting them is each user's own affair (fork, posix_spawn).

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>

#include "model/base/descriptor.hpp"

namespace tandem::model {

// A pipe whose ends are closed when this process executes another program.
struct Pipe {
  Descriptor reading;
  Descriptor writing;
};
// Throws Error (`subject`, the system's reason, remedy) if there is none.
[[nodiscard]] Pipe open_pipe(const std::string& subject);

// For a child after fork(): has the kernel end it when `parent`, the process that forked, ends for
// whatever reason. Ends it at once if `parent` has ended already.
void end_with_parent(pid_t parent) noexcept;

// A child of this process. Killed and reaped at the end, unless it has been waited for. Move-only.
class ChildProcess {
 public:
  ChildProcess() = default;  // none
  // `id`: what fork() or posix_spawn() gave, above 0.
  explicit ChildProcess(pid_t id) : id_(id) {}
  ChildProcess(ChildProcess&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess() { end(); }

  // Whether there is a child that has not been waited for.
  [[nodiscard]] bool running() const { return id_ > 0; }
  void kill() const noexcept;
  // Waits for its end; the status that waitpid(2) gives. Throws logic_error unless running().
  int wait();
  // Its status, as wait() gives it, if it has ended by now: there is no child then. Absent: it
  // runs, or there is none.
  [[nodiscard]] std::optional<int> status_if_ended() noexcept;
  // Whether it has ended by now, or there is none; it needs no wait() then.
  [[nodiscard]] bool ended() noexcept;

 private:
  void end() noexcept;
  pid_t id_ = -1;
};

}  // namespace tandem::model
