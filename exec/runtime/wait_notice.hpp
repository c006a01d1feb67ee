#pragma once

// Notices for long waits: what this device waits for.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "exec/transport/activity.hpp"

namespace tandem::exec {

struct WaitNoticeOptions {
  std::chrono::milliseconds first{5'000};  // without progress; the interval doubles each time
  std::function<std::string()> text;       // what this device waits for; empty: no notice
  std::function<void(const std::string& text)> say;
};

// During its lifetime a thread calls `say` when `activity` has made no progress for a while.
class WaitNotice {
 public:
  // `activity` outlives the notice. Both functions of `options` are called on the thread.
  WaitNotice(const Activity& activity, WaitNoticeOptions options);
  ~WaitNotice();
  WaitNotice(const WaitNotice&) = delete;
  WaitNotice& operator=(const WaitNotice&) = delete;

 private:
  void watch();

  const Activity* activity_;
  WaitNoticeOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tandem::exec
