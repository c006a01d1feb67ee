#include "sim/network/child.hpp"

#include <poll.h>
#include <stdio_ext.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "model/base/child_process.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::sim {
namespace {

using Clock = std::chrono::steady_clock;

enum class Frame : std::uint32_t { data, error, caller_error, done };

struct Header {
  Frame frame = Frame::done;
  std::uint32_t bytes = 0;
};

// The parent trusts no length that a dying child wrote.
constexpr std::size_t kMaxFrame = std::size_t{1} << 24;

void write_all(int fd, const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ::_exit(1);  // the parent is gone
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void write_frame(int fd, Frame frame, const void* data, std::size_t bytes) {
  const Header header{frame, static_cast<std::uint32_t>(bytes)};
  write_all(fd, &header, sizeof header);
  write_all(fd, data, bytes);
}

void write_text(int fd, Frame frame, const char* text) {
  write_frame(fd, frame, text, std::min(std::strlen(text), kMaxFrame));
}

[[noreturn]] void run_child(int output, int said, pid_t parent,
                            const std::function<void(const std::function<void(Bytes)>&)>& body) {
  model::end_with_parent(parent);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(SIGPIPE, SIG_IGN);
  ::__fpurge(stdout);  // what the parent has not yet written is not the child's to write
  ::dup2(said, STDOUT_FILENO);
  ::dup2(said, STDERR_FILENO);
  try {
    body([output](Bytes bytes) {
      for (std::size_t at = 0; at < bytes.size(); at += kMaxFrame) {
        write_frame(output, Frame::data, bytes.data() + at, std::min(kMaxFrame, bytes.size() - at));
      }
    });
    write_frame(output, Frame::done, nullptr, 0);
  } catch (const std::logic_error& e) {
    write_text(output, Frame::caller_error, e.what());
  } catch (const std::exception& e) {
    write_text(output, Frame::error, model::describe(e).c_str());
  } catch (...) {
    write_text(output, Frame::error, "unknown exception");
  }
  // Nothing of the parent's (buffers, handlers, leak checks) runs here.
  ::_exit(0);
}

// Returns the last lines of the child's output, as one line, without SimGrid's backtrace.
std::string last_words(int fd) {
  constexpr off_t kRead = 65536;
  constexpr std::size_t kKept = 1200;
  const off_t size = ::lseek(fd, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - kRead);
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, size - from)), '\0');
  const ssize_t n = ::pread(fd, text.data(), text.size(), from);
  text.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  text.resize(std::min(text.size(), text.find("Backtrace (displayed")));
  if (text.size() > kKept) text.erase(0, text.size() - kKept);
  std::string line;
  for (const char c : text) {
    const bool blank = static_cast<unsigned char>(c) < 0x21 || c == 0x7f;
    if (!blank) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line.empty() ? "nothing" : line;
}

class PipeReader {
 public:
  PipeReader(int fd, const ChildOptions& options)
      : fd_(fd), options_(&options), deadline_(Clock::now() + options.timeout) {}

  // False at the end of the stream.
  bool read(void* data, std::size_t bytes) {
    char* at = static_cast<char*>(data);
    while (bytes > 0) {
      wait();
      const ssize_t n = ::read(fd_, at, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      at += n;
      bytes -= static_cast<std::size_t>(n);
    }
    return true;
  }

 private:
  void wait() const {
    if (options_->timeout.count() == 0) return;
    for (;;) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
      if (left <= 0) {
        throw Error(options_->subject + ": SimGrid gave no answer within " +
                    std::to_string(options_->timeout.count()) +
                    " ms; make the platform smaller, or its routes simpler");
      }
      pollfd poll{fd_, POLLIN, 0};
      if (::poll(&poll, 1, static_cast<int>(left)) > 0) return;
    }
  }

  int fd_;
  const ChildOptions* options_;
  Clock::time_point deadline_;
};

std::string end_of(int status) {
  if (WIFSIGNALED(status)) {
    return "was ended by signal " + std::to_string(WTERMSIG(status)) + " (" +
           ::strsignal(WTERMSIG(status)) + ")";
  }
  return "exited with " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

void run_in_child(const ChildOptions& options,
                  const std::function<void(const std::function<void(Bytes)>& send)>& body,
                  const std::function<void(Bytes)>& receive) {
  const model::Descriptor said(::memfd_create("tandem-simgrid", MFD_CLOEXEC));
  if (!said.is_open())
    throw Error(options.subject + ": no memory file for SimGrid's process: " +
                model::system_fault(errno, "free some memory"));
  model::Pipe pipe = model::open_pipe("simulation process");
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0)
    throw Error(options.subject +
                ": no process for SimGrid: " + model::system_fault(errno, "close other programs"));
  if (pid == 0) run_child(pipe.writing.number(), said.number(), parent, body);
  model::ChildProcess child(pid);
  pipe.writing.close();

  PipeReader reader(pipe.reading.number(), options);
  std::vector<std::byte> payload;
  Header header;
  while (reader.read(&header, sizeof header)) {
    if (header.bytes > kMaxFrame) break;
    payload.resize(header.bytes);
    if (!reader.read(payload.data(), payload.size())) break;
    const std::string text(reinterpret_cast<const char*>(payload.data()),
                           header.frame == Frame::data ? 0 : payload.size());
    switch (header.frame) {
      case Frame::data:
        receive(payload);
        continue;
      case Frame::error:
        throw Error(text);
      case Frame::caller_error:
        throw std::logic_error(text);
      case Frame::done:
        child.wait();
        return;
    }
    break;
  }
  child.kill();
  const int status = child.wait();
  throw Error(options.subject + (options.failed.empty() ? "" : ": " + options.failed) +
              ": SimGrid's process " + end_of(status) + " and said: " + last_words(said.number()));
}

}  // namespace tandem::sim
