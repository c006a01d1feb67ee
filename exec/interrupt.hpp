#pragma once

#include <functional>
#include <mutex>
#include <string>

namespace tandem::exec {

// Ends a generation from outside: another thread, a signal.
class Interrupt {
 public:
  // Makes the present, or else the next, generation throw Error(reason). Any thread.
  void trip(const std::string& reason) noexcept;

 private:
  friend class MasterSession;
  void watch(std::function<void(const std::string&)> cancel);
  void leave() noexcept;
  std::mutex mutex_;
  std::string reason_;
  std::function<void(const std::string&)> cancel_;
};

}  // namespace tandem::exec
