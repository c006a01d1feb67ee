#pragma once

// Worker processes, made by fork, for the tests of sessions.

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "exec/kernels/integer_choice.hpp"
#include "exec/session/master.hpp"
#include "exec/session/worker.hpp"
#include "model/base/error.hpp"
#include "tests/exec/weights/weights_support.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::testing {

using exec::Clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// True once `done()` is, within the time.
inline bool eventually(const std::function<bool()>& done,
                       std::chrono::milliseconds time = std::chrono::milliseconds(10'000)) {
  const auto deadline = Clock::now() + time;
  while (!done()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

// Runs `body` in a child; the process must have no other threads now.
inline pid_t fork_child(const std::function<int()>& body) {
  const pid_t parent = getpid();
  std::cout.flush();  // or the child would write it again
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(9);
  int code = 8;
  try {
    code = body();
  } catch (...) {
    code = 7;
  }
  _exit(code);
}

// Changes worker `d` in its process, before it serves anyone.
using TuneWorker = std::function<void(int d, exec::WorkerOptions& options)>;

// Workers 1 .. count, each with its own cache and log in `folder`.
class Workers {
 public:
  Workers(const std::filesystem::path& folder, int count, const std::optional<exec::Key>& key,
          TuneWorker tune = {})
      : folder_(folder), tune_(std::move(tune)), endpoints_(1), pids_(1, -1) {
    // Once for all tests and their workers: with a thread sanitizer it takes seconds a process.
    exec::choose_integer_kernels(program().parent_path() / "kernel-times");
    for (int d = 1; d <= count; ++d) {
      exec::ListenSocket socket({.host = "127.0.0.1"}, key.has_value());
      endpoints_.push_back(socket.endpoint());
      pids_.push_back(fork_child([&, d] { return work(std::move(socket), d, key); }));
    }
  }
  ~Workers() {
    for (const pid_t pid : pids_) {
      if (pid <= 0) continue;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  [[nodiscard]] const std::vector<exec::Endpoint>& endpoints() const { return endpoints_; }
  [[nodiscard]] pid_t pid(int d) const { return pids_[static_cast<std::size_t>(d)]; }
  [[nodiscard]] std::string log(int d) const { return read_all(log_path(d)); }
  [[nodiscard]] int count_in_log(int d, const std::string& text) const {
    const std::string all = log(d);
    int found = 0;
    for (std::size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) {
      ++found;
    }
    return found;
  }
  [[nodiscard]] bool alive(int d) const { return waitpid(pid(d), nullptr, WNOHANG) == 0; }

 private:
  std::filesystem::path log_path(int d) const {
    return folder_ / ("worker-" + std::to_string(d) + ".log");
  }
  int work(exec::ListenSocket socket, int d, const std::optional<exec::Key>& key) const {
    exec::WorkerOptions options;
    options.key = key;
    options.cache_dir = folder_ / ("cache-" + std::to_string(d));
    options.verbose = true;
    options.log = [path = log_path(d)](const std::string& line) {
      std::ofstream(path, std::ios::app) << line + "\n";
    };
    if (tune_) tune_(d, options);
    const exec::Cancellation never;
    exec::serve(std::move(socket), options, never);
    return 0;
  }

  std::filesystem::path folder_;
  TuneWorker tune_;
  std::vector<exec::Endpoint> endpoints_;  // by device; the master's is empty
  std::vector<pid_t> pids_;
};

}  // namespace tandem::testing
