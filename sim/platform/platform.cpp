#include "sim/platform/platform.hpp"

#include <filesystem>
#include <fstream>

#include "model/base/error.hpp"
#include "sim/platform/platform_check.hpp"
#include "sim/platform/platform_xml.hpp"

namespace tandem::sim {
namespace {

constexpr std::uintmax_t kMaxFile = std::uintmax_t{16} << 20;

std::string read_file(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    throw Error(path + ": no such file, expected a platform XML file; check the path");
  }
  // A device or pipe could block, or never end.
  if (!std::filesystem::is_regular_file(status)) {
    throw Error(path + ": not a regular file, expected a platform XML file; give the file's path");
  }
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error || size > kMaxFile) {
    throw Error(path + ": " + std::to_string(size) + " bytes, expected at most " +
                std::to_string(kMaxFile) + "; is it a platform file?");
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(size), '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(size))) {
    throw Error(path + ": cannot be read, expected a platform XML file; check its permissions");
  }
  return text;
}

}  // namespace

Platform read_platform(const std::string& path) {
  const std::string text = read_file(path);
  Platform platform = parse_platform_xml(text, path);
  check_with_simgrid(text, path, platform.cluster);
  return platform;
}

}  // namespace tandem::sim
