#pragma once

// Reading parts of files, with one clear error for everything that can go wrong.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace tandem::exec {

// An open file. read_at may be called by several threads at once. Move-only.
class ReadFile {
 public:
  // Throws Error (path, the system's reason, remedy) unless `path` is a regular file that opens.
  explicit ReadFile(const std::filesystem::path& path);
  ReadFile(ReadFile&& other) noexcept;
  ReadFile& operator=(ReadFile&& other) noexcept;
  ~ReadFile();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }  // when it was opened
  // Throws Error if the file ends before `bytes` is filled.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  // The page cache need not keep these bytes.
  void forget(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

// The whole of a small text file. Throws Error, also if it is larger than `limit` bytes.
[[nodiscard]] std::string read_text(const std::filesystem::path& path, std::uint64_t limit);

}  // namespace tandem::exec
