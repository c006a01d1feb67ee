#pragma once

// This program, started again with other arguments: each step of a sitting is a command that a user
// could have given, in a process of its own.

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/base/child_process.hpp"

namespace tandem::cli {

// The command was interrupted: what is under way is not kept.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

class Subcommands {
 public:
  // Runs `tandem WORDS` to its end. Throws Error (the command, its last line) unless it succeeds,
  // Interrupted if interrupt() has been called.
  void run(const std::vector<std::string>& words);
  // Kills the command that runs, and makes run() throw. From any thread.
  void interrupt();
  [[nodiscard]] bool interrupted() const { return interrupted_; }

 private:
  std::mutex mutex_;
  model::ChildProcess child_;  // under mutex_
  std::atomic<bool> interrupted_ = false;
};

}  // namespace tandem::cli
