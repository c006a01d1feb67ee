#include "cli/files/temporary_folder.hpp"

#include <stdlib.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::cli {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder(std::string_view label) {
  std::string name =
      (fs::temp_directory_path() / ("tandem-" + std::string(label) + "-XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr)
    throw Error(name + ": cannot make this folder: " +
                model::system_fault(errno, "set TMPDIR to a writable folder"));
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace tandem::cli
