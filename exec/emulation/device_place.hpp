#pragma once

// Where the process of an emulated device runs.

#include <string>

namespace tandem::exec {

struct DevicePlace {
  std::string host = "127.0.0.1";  // on which it listens
  int network = -1;                // open: the network namespace it is in; -1: this process's
  std::string memory_group{};      // cgroup.procs of its memory cgroup; empty: this process's
};

// For a child after fork(), before it executes its program: moves it there. False if the system
// refuses it. Safe after a fork of a process with threads.
[[nodiscard]] bool enter(const DevicePlace& place) noexcept;

}  // namespace tandem::exec
