#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "model/base/descriptor.hpp"

namespace tandem::exec {

// One switch that ends every blocking call that watches it. Thread-safe.
class Cancellation {
 public:
  Cancellation();
  ~Cancellation() = default;
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // Throws the switch. The first reason stays.
  void cancel(const std::string& reason) noexcept;
  [[nodiscard]] bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // Throws Error(reason) if cancelled.
  void check() const;
  // A descriptor that is readable once cancelled, for poll sets.
  [[nodiscard]] int descriptor() const { return descriptor_.number(); }

 private:
  model::Descriptor descriptor_;
  mutable std::mutex mutex_;
  std::atomic<bool> cancelled_ = false;
  std::string reason_;
};

}  // namespace tandem::exec
