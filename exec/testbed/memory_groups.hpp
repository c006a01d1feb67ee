#pragma once

// The memory of each device of a testbed: cgroups of version 1.

#include <filesystem>
#include <string>
#include <vector>

#include "model/base/descriptor.hpp"
#include "model/base/units.hpp"

namespace tandem::exec {

// One memory cgroup a device, whose limit is the device's memory. Removed at the end; what a
// process that was killed left is removed by remove_memory_groups(). Of no effect, limits() says,
// where the machine has no memory cgroups of version 1 that this process may make.
class MemoryGroups {
 public:
  // `memory`: by DeviceIndex. `root`: where the memory controller is mounted.
  explicit MemoryGroups(const std::vector<model::Bytes>& memory,
                        const std::filesystem::path& root = default_root());
  ~MemoryGroups();
  MemoryGroups(const MemoryGroups&) = delete;
  MemoryGroups& operator=(const MemoryGroups&) = delete;

  [[nodiscard]] bool limits() const { return !groups_.empty(); }
  // The file by which a process enters a device's group; empty if there are no groups.
  [[nodiscard]] std::string entrance(std::size_t device) const;
  // Whether the kernel has ended a process of the device because it had used all its memory.
  [[nodiscard]] bool was_exhausted(std::size_t device) const;

  [[nodiscard]] static std::filesystem::path default_root() { return "/sys/fs/cgroup/memory"; }

 private:
  std::filesystem::path folder_;
  model::Descriptor lock_;                     // held on folder_ while this process lives
  std::vector<std::filesystem::path> groups_;  // by DeviceIndex
};

// Removes the groups that no living process holds.
void remove_memory_groups(
    const std::filesystem::path& root = MemoryGroups::default_root()) noexcept;

}  // namespace tandem::exec
