#include "cli/views/interruption.hpp"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "cli/views/line_log.hpp"
#include "cli/views/standard_output.hpp"

namespace tandem::cli {
namespace {

using Clock = std::chrono::steady_clock;

// `timeout` and shells signal a process and its group: two signals, but one request to end.
constexpr std::chrono::milliseconds kSameRequest{500};
constexpr timespec kTick{.tv_sec = 0, .tv_nsec = 50'000'000};

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

void watch(const std::stop_token& stop, const std::function<void(const std::string&)>& on_signal,
           std::function<void()> on_unread, std::chrono::seconds grace) {
  const sigset_t set = watched();
  Clock::time_point patience = Clock::time_point::max();
  Clock::time_point repeated{};  // from then on, another signal is a second request
  while (!stop.stop_requested()) {
    const bool signalled = sigtimedwait(&set, nullptr, &kTick) > 0;
    const bool again = signalled && patience != Clock::time_point::max();
    if ((again && Clock::now() >= repeated) || Clock::now() > patience) {
      write_if_possible(STDERR_FILENO, "tandem: interrupted\n");
      _exit(1);
    }
    if (on_unread && reader_gone()) std::exchange(on_unread, nullptr)();
    if (!signalled || again) continue;
    repeated = Clock::now() + kSameRequest;
    patience = Clock::now() + grace;
    on_signal("interrupted");
  }
}

}  // namespace

Interruption::Interruption(std::function<void(const std::string& reason)> on_signal,
                           std::function<void()> on_unread, std::chrono::seconds grace) {
  const sigset_t set = watched();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  thread_ = std::jthread([act = std::move(on_signal), unread = std::move(on_unread),
                          grace](const std::stop_token& stop) { watch(stop, act, unread, grace); });
}

Interruption::~Interruption() {
  thread_.request_stop();
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace tandem::cli
