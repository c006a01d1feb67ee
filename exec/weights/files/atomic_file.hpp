#pragma once

// Files that appear under their name as a whole or not at all.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "model/base/descriptor.hpp"

namespace tandem::exec {

// Writes to a file in `folder` that has no name until commit() gives it one, so that neither an
// error nor the end of the process leaves anything behind. On file systems without such files
// (O_TMPFILE) it has a temporary name and a lock, by which the next writer in that folder detects
// that its process has ended, and removes it. Move-only. All functions throw Error (path, the
// system's reason, remedy).
class AtomicFile {
 public:
  // Creates `folder` and its parents if necessary.
  explicit AtomicFile(const std::filesystem::path& folder) : AtomicFile(folder, true) {}
  // `unnamed` false: uses a temporary name even if the file system supports O_TMPFILE.
  AtomicFile(const std::filesystem::path& folder, bool unnamed);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // Replaces written bytes from `at` on.
  void overwrite(std::uint64_t at, std::string_view text);
  [[nodiscard]] std::uint64_t written() const { return written_; }
  // Writes what was written to the disk and drops it from the page cache: for large files on
  // devices with little memory.
  void settle();
  // Renames the file to `folder`/`name`, replacing a file of that name.
  void commit(const std::filesystem::path& name);

 private:
  void open_unnamed();
  void open_named();
  // Names the unnamed file; false if `name` exists.
  [[nodiscard]] bool link_to(const std::filesystem::path& name) const;

  std::filesystem::path folder_;
  std::filesystem::path temporary_;  // empty: nothing to remove
  model::Descriptor file_;
  std::uint64_t written_ = 0;
  std::uint64_t settled_ = 0;
};

}  // namespace tandem::exec
