#pragma once

// Reading pieces of files, with one clear error for everything that can go wrong.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "model/base/descriptor.hpp"

namespace tandem::exec {

// Of a text file of a model's folder, such as its tokenizer.
inline constexpr std::uint64_t kMaxFileBytes = std::uint64_t{64} << 20U;

// Tells a file's contents from those of another time without reading them. Times of modification
// alone do not: copying programs set them, and the kernel's time of change nobody can set.
struct FileStamp {
  std::uint64_t device = 0;  // of the file system
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};
// Of the file itself, not of what a link leads to; nothing if there is none.
[[nodiscard]] std::optional<FileStamp> stamp_of(const std::filesystem::path& path);

// Whether there is a file or folder `path`, through links. Throws Error (path, target, remedy) if
// it is a link that leads nowhere.
[[nodiscard]] bool is_present(const std::filesystem::path& path);

// Returns the size of `file`, just opened as `path`. Throws Error (path, the system's reason,
// remedy) unless it is open and a regular file.
[[nodiscard]] std::uint64_t size_of_regular(const model::Descriptor& file,
                                            const std::filesystem::path& path);

// An open file. read_at may be called by several threads at once. Move-only.
class ReadFile {
 public:
  // Throws Error (path, the system's reason, remedy) unless `path` is a regular file that opens.
  explicit ReadFile(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }  // when it was opened
  [[nodiscard]] const model::Descriptor& descriptor() const { return file_; }
  // As it is now.
  [[nodiscard]] FileStamp stamp() const;
  // Throws Error if the file ends before `bytes` is filled.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  // The page cache need not keep these bytes.
  void forget(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  std::filesystem::path path_;
  model::Descriptor file_;
  std::uint64_t size_ = 0;
};

// The whole of a small text file. Throws Error, also if it is larger than `limit` bytes.
[[nodiscard]] std::string read_text(const std::filesystem::path& path, std::uint64_t limit);

}  // namespace tandem::exec
