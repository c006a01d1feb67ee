#pragma once

#include <atomic>
#include <mutex>
#include <string>

namespace tandem::exec {

// One switch that ends every blocking call that watches it. Thread-safe.
class Cancellation {
 public:
  Cancellation();
  ~Cancellation();
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // The first reason stays.
  void cancel(const std::string& reason) noexcept;
  [[nodiscard]] bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // Throws Error(reason) if cancelled.
  void check() const;
  // Readable once cancelled: for poll sets.
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
  mutable std::mutex mutex_;
  std::atomic<bool> cancelled_ = false;
  std::string reason_;
};

}  // namespace tandem::exec
