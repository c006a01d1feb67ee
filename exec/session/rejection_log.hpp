#pragma once

// A stranger costs a worker a line of its log, a thousand strangers do not cost a thousand.

#include <functional>
#include <mutex>
#include <string>

#include "exec/transport/transport.hpp"

namespace tandem::exec {

// Says the first few rejections of every ten seconds, and counts the others. Thread-safe.
class RejectionLog {
 public:
  static constexpr int kLines = 5;
  static constexpr std::chrono::seconds kWindow{10};

  explicit RejectionLog(std::function<void(const std::string& line)> say);
  void add(const std::string& reason, Clock::time_point now);
  // Says how many were left out, when their ten seconds are over.
  void settle(Clock::time_point now);

 private:
  void settle_locked(Clock::time_point now);

  std::mutex mutex_;
  std::function<void(const std::string& line)> say_;
  Clock::time_point begin_{};
  int said_ = 0;
  long left_out_ = 0;
};

}  // namespace tandem::exec
