#pragma once

#include <filesystem>
#include <string_view>

namespace tandem::cli {

// A folder in the system's place for temporary files (TMPDIR), removed with what is in it.
class TemporaryFolder {
 public:
  // `label` is part of its name. Throws Error (path, the system's reason, remedy).
  explicit TemporaryFolder(std::string_view label);
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tandem::cli
