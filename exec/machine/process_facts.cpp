#include "exec/machine/process_facts.hpp"

#include <malloc.h>

#include <exception>
#include <fstream>
#include <sstream>
#include <string>

#include "model/base/error.hpp"

namespace tandem::exec {

double field_bytes(const std::filesystem::path& path, const std::string& field) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(field)) continue;
    std::istringstream words(line.substr(field.size()));
    double kibibytes = 0.0;
    if (words >> kibibytes) return kibibytes * 1024.0;
  }
  throw Error(path.string() + ": no field '" + field +
              "', expected a Linux /proc file system; mount it");
}

double peak_resident_bytes() { return field_bytes("/proc/self/status", "VmHWM:"); }

std::uint64_t resident_bytes() noexcept {
  try {
    return static_cast<std::uint64_t>(field_bytes("/proc/self/status", "VmRSS:"));
  } catch (const std::exception&) {
    return 0;
  }
}

bool reset_peak_resident() {
  malloc_trim(0);
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
  file.flush();
  return file.good();
}

}  // namespace tandem::exec
