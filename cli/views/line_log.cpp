#include "cli/views/line_log.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

namespace tandem::cli {
namespace {

constexpr std::size_t kMostLines = 256;
constexpr std::chrono::milliseconds kFarewell{200};

// May block for ever. An error of the descriptor is nobody's to report.
void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

struct LineLog::State {
  std::string prefix;
  int descriptor = 2;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> lines;
  std::size_t left_out = 0;
  bool writing = false;
  bool stopping = false;

  // Whether another program has the terminal: its line may be unfinished, such as a prompt's.
  [[nodiscard]] bool in_background() const {
    return ::isatty(descriptor) != 0 && ::tcgetpgrp(descriptor) != ::getpgrp();
  }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return stopping || !lines.empty(); });
      if (lines.empty()) return;
      std::string text = (in_background() ? "\n" : "") + prefix + lines.front() + '\n';
      lines.pop_front();
      if (lines.empty() && left_out > 0) {
        text += prefix + "and " + std::to_string(left_out) + " lines more, which nobody read\n";
        left_out = 0;
      }
      writing = true;
      lock.unlock();
      write_all(descriptor, text);
      lock.lock();
      writing = false;
      changed.notify_all();
    }
  }
};

LineLog::LineLog(std::string prefix, int descriptor) : state_(std::make_shared<State>()) {
  state_->prefix = std::move(prefix);
  state_->descriptor = descriptor;
  std::thread([state = state_] { state->run(); }).detach();
}

LineLog::~LineLog() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kFarewell,
                           [this] { return state_->lines.empty() && !state_->writing; });
}

void LineLog::write(const std::string& line) {
  const std::lock_guard lock(state_->mutex);
  if (state_->lines.size() >= kMostLines) {
    ++state_->left_out;
    return;
  }
  state_->lines.push_back(line);
  state_->changed.notify_all();
}

void write_if_possible(int descriptor, const std::string& line,
                       std::chrono::milliseconds patience) noexcept {
  // A pipe that can be written to takes a page without waiting.
  pollfd ready{.fd = descriptor, .events = POLLOUT, .revents = 0};
  if (::poll(&ready, 1, static_cast<int>(patience.count())) != 1 || (ready.revents & POLLOUT) == 0)
    return;
  constexpr std::size_t kPage = 4096;
  static_cast<void>(::write(descriptor, line.data(), std::min(line.size(), kPage)) > 0);
}

}  // namespace tandem::cli
