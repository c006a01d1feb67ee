#pragma once

// A file that appears whole under its name or not at all.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace tandem::exec {

// Writes to a temporary file in `folder`; commit renames it. Without commit the destructor removes
// it, so that an error leaves nothing behind. Move-only. All functions throw Error (path, the
// system's reason, remedy).
class AtomicFile {
 public:
  // Makes `folder` and its parents if need be.
  explicit AtomicFile(const std::filesystem::path& folder);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  [[nodiscard]] std::uint64_t written() const { return written_; }
  // Has what was written go to the disk and leave the page cache: for large files, on devices with
  // little memory.
  void settle();
  // Becomes `folder`/`name`, replacing a file of that name.
  void commit(const std::filesystem::path& name);

 private:
  std::filesystem::path folder_;
  std::filesystem::path temporary_;  // empty: nothing to remove
  int descriptor_ = -1;
  std::uint64_t written_ = 0;
  std::uint64_t settled_ = 0;
};

}  // namespace tandem::exec
