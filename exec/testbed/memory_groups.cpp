#include "exec/testbed/memory_groups.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string_view>
#include <system_error>
#include <thread>

namespace tandem::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolder = "tandem-testbed-";  // and the number of its process

fs::path folder_of(const fs::path& root) {
  return root / (std::string(kFolder) + std::to_string(::getpid()));
}

bool write_value(const fs::path& file, const std::string& value) {
  std::ofstream stream(file);
  stream << value;
  return static_cast<bool>(stream.flush());
}

// A group whose last process has just ended may be busy for a moment.
void remove_group(const fs::path& group) noexcept {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries && ::rmdir(group.c_str()) != 0 && errno == EBUSY; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// The lock of a folder of groups, which its process holds until it ends; closed if another one
// does.
model::Descriptor lock_of(const fs::path& folder) {
  model::Descriptor lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.is_open() && ::flock(lock.number(), LOCK_EX | LOCK_NB) != 0) lock.close();
  return lock;
}

// With the devices' groups in it.
void remove_folder(const fs::path& folder) {
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    if (entry.is_directory(none)) remove_group(entry.path());
  }
  remove_group(folder);
}

}  // namespace

MemoryGroups::MemoryGroups(const std::vector<model::Bytes>& memory, const fs::path& root)
    : folder_(folder_of(root)) {
  std::error_code refused;
  if (!fs::exists(root / "memory.limit_in_bytes", refused)) return;
  // Of a process that had this one's number: its counts of ended processes are not to be kept.
  if (fs::exists(folder_, refused)) remove_folder(folder_);
  fs::create_directory(folder_, refused);
  lock_ = lock_of(folder_);
  for (std::size_t d = 0; d < memory.size() && !refused; ++d) {
    groups_.push_back(folder_ / ("device-" + std::to_string(d)));
    fs::create_directory(groups_.back(), refused);
    const auto limit = static_cast<std::int64_t>(std::floor(memory[d].value()));
    static_cast<void>(write_value(groups_.back() / "memory.swappiness", "0"));
    if (!write_value(groups_.back() / "memory.limit_in_bytes", std::to_string(limit)))
      refused = std::make_error_code(std::errc::permission_denied);
  }
  if (!refused) return;
  groups_.clear();
  remove_folder(folder_);
}

MemoryGroups::~MemoryGroups() {
  if (!groups_.empty()) remove_folder(folder_);
}

std::string MemoryGroups::entrance(std::size_t device) const {
  return groups_.empty() ? "" : (groups_.at(device) / "cgroup.procs").string();
}

bool MemoryGroups::was_exhausted(std::size_t device) const {
  if (groups_.empty()) return false;
  std::ifstream control(groups_.at(device) / "memory.oom_control");
  std::string name;
  for (std::int64_t value = 0; control >> name >> value;) {
    if (name == "oom_kill") return value > 0;
  }
  return false;
}

void remove_memory_groups(const fs::path& root) noexcept {
  try {
    std::error_code none;
    for (const fs::directory_entry& entry : fs::directory_iterator(root, none)) {
      const std::string name = entry.path().filename();
      if (!name.starts_with(kFolder)) continue;
      if (lock_of(entry.path()).is_open()) remove_folder(entry.path());
    }
  } catch (...) {
    return;  // memory ran out: the next testbed removes them
  }
}

}  // namespace tandem::exec
