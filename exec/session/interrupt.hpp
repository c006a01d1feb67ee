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
  friend class InterruptWatch;
  void watch(std::function<void(const std::string&)> cancel);
  void leave() noexcept;
  std::mutex mutex_;
  std::string reason_;
  std::function<void(const std::string&)> cancel_;
};

// Calls `stop`, on any thread, if `interrupt` is tripped while this lives: for work outside of a
// session.
class InterruptWatch {
 public:
  // Throws Error(reason) if it was tripped before.
  InterruptWatch(Interrupt& interrupt, std::function<void()> stop);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

 private:
  Interrupt& interrupt_;
};

}  // namespace tandem::exec
