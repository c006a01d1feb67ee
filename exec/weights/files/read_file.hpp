#pragma once

// Reads parts of files, with one clear error for every failure.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "model/base/descriptor.hpp"

namespace tandem::exec {

// Size limit of a text file in a model's folder, such as its tokenizer.
inline constexpr std::uint64_t kMaxFileBytes = std::uint64_t{64} << 20U;

// Identifies a file's contents over time without reading them. The time of modification alone does
// not, as copying programs set it; the kernel's time of change cannot be set.
struct FileStamp {
  std::uint64_t device = 0;  // of the file system
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};
// Returns the stamp of the file itself, not of a link's target; nothing if there is none.
[[nodiscard]] std::optional<FileStamp> stamp_of(const std::filesystem::path& path);

// Returns whether a file or folder `path` exists, through links. Throws Error (path, target,
// remedy) for a dangling link.
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
  // Returns the current stamp.
  [[nodiscard]] FileStamp stamp() const;
  // Throws Error if the file is too short.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  // Drops these bytes from the page cache.
  void forget(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  std::filesystem::path path_;
  model::Descriptor file_;
  std::uint64_t size_ = 0;
};

// Returns the whole of a small text file. Throws Error, also if it is larger than `limit` bytes.
[[nodiscard]] std::string read_text(const std::filesystem::path& path, std::uint64_t limit);

}  // namespace tandem::exec
