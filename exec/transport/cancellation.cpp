#include "exec/transport/cancellation.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {

Cancellation::Cancellation() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!descriptor_.is_open()) {
    throw Error("transport: no event descriptor: " +
                model::system_fault(errno, "free some memory"));
  }
}

void Cancellation::cancel(const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (cancelled_.load(std::memory_order_relaxed)) return;
  try {
    reason_ = reason;
  } catch (const std::bad_alloc&) {
    reason_.clear();
  }
  cancelled_.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  // Cannot fail: the counter is zero.
  static_cast<void>(::write(descriptor_.number(), &one, sizeof one) == sizeof one);
}

void Cancellation::check() const {
  if (!cancelled()) return;
  const std::lock_guard lock(mutex_);
  throw Error(reason_);
}

}  // namespace tandem::exec
