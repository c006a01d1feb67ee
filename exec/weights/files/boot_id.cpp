#include "exec/weights/files/boot_id.hpp"

#include <fstream>
#include <string>

namespace tandem::exec {

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace tandem::exec
