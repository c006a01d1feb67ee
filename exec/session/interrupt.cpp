#include "exec/session/interrupt.hpp"

#include <utility>

#include "model/base/error.hpp"

namespace tandem::exec {

void Interrupt::trip(const std::string& reason) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (reason_.empty()) reason_ = reason;
    if (cancel_) cancel_(reason_);
  } catch (...) {
    return;  // no memory for a short text: nothing is left to do
  }
}

void Interrupt::watch(std::function<void(const std::string&)> cancel) {
  const std::lock_guard lock(mutex_);
  if (!reason_.empty()) throw Error(reason_);
  cancel_ = std::move(cancel);
}

void Interrupt::leave() noexcept {
  const std::lock_guard lock(mutex_);
  cancel_ = nullptr;
}

InterruptWatch::InterruptWatch(Interrupt& interrupt, std::function<void()> stop)
    : interrupt_(interrupt) {
  interrupt_.watch([stop = std::move(stop)](const std::string& /*reason*/) { stop(); });
}

InterruptWatch::~InterruptWatch() { interrupt_.leave(); }

}  // namespace tandem::exec
