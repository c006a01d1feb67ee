#include "exec/machine/machine_identity.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace tandem::exec {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

std::uint64_t network_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/net", &status) == 0 ? status.st_ino : 0;
}

}  // namespace tandem::exec
