#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

namespace tandem::cli {

// While it lives, Ctrl-C, SIGTERM and SIGHUP call `on_signal` on a thread of its own instead of
// ending the process; if it still lives `grace` later, or at another signal more than half a second
// after the first, the process exits with one line. `on_unread`, if any, is called once when
// standard output has lost its reader. To be made before any other thread.
class Interruption {
 public:
  explicit Interruption(std::function<void(const std::string& reason)> on_signal,
                        std::function<void()> on_unread = {},
                        std::chrono::seconds grace = std::chrono::seconds(2));
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

 private:
  sigset_t before_{};
  std::jthread thread_;
};

}  // namespace tandem::cli
