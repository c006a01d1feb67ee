#pragma once

#include <filesystem>
#include <string>

namespace tandem::exec {

struct AvailableMemory {
  double bytes = 0.0;
  std::string bound;  // what allows no more: "this machine", or a control group and its limit
};

// Returns what programs can still have without swapping or being killed: MemAvailable, or less if a
// control group of this process, or one around it, has a limit (versions 1 and 2): that limit
// without what the group uses, of which page cache can be taken back. /proc and the groups are
// looked for below `root`. Throws Error if /proc does not say.
// An example: 8 GB are available, and the group may use 2 GB, of which it uses 1.5 GB, 0.3 GB of
// them page cache: 0.8 GB.
[[nodiscard]] AvailableMemory available_memory(const std::filesystem::path& root = "/");

}  // namespace tandem::exec
