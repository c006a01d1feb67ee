#pragma once

// What the devices of a running session do now, for those who look on.

#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "exec/transport/wire.hpp"

namespace tandem::exec {

// By DeviceIndex, each as it last said; nothing of a device that the session does not use. Empty:
// no session is running.
using DeviceStates = std::vector<std::optional<Heartbeat>>;

// Outlives the session that it watches. Thread-safe.
class DeviceWatch {
 public:
  [[nodiscard]] DeviceStates read() const {
    const std::lock_guard lock(mutex_);
    return read_ ? read_() : DeviceStates();
  }
  // For the session: how its devices are read; null: not any more. Must not throw.
  void use(std::function<DeviceStates()> read) {
    const std::lock_guard lock(mutex_);
    read_ = std::move(read);
  }

 private:
  mutable std::mutex mutex_;
  std::function<DeviceStates()> read_;
};

}  // namespace tandem::exec
