#include "exec/machine/machine_identity.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "model/base/error.hpp"

namespace tandem::exec {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

std::string boot_id() {
  constexpr const char* kPath = "/proc/sys/kernel/random/boot_id";
  std::ifstream file(kPath);
  std::string id;
  if (!(file >> id))
    throw Error(std::string(kPath) + ": cannot be read, expected a Linux /proc file system; mount it");
  return id;
}

std::uint64_t network_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/net", &status) == 0 ? status.st_ino : 0;
}

}  // namespace tandem::exec
