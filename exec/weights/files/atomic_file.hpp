#pragma once

// A file that appears whole under its name or not at all.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "model/base/descriptor.hpp"

namespace tandem::exec {

// Writes to a file in `folder` that has no name until commit gives it one, so that nothing is left
// behind by an error, nor by whatever ends the process. Where the file system has no such files
// (O_TMPFILE) it has a temporary name, and a lock by which the next writer in that folder knows
// whether its process still lives, and removes it if not. Move-only. All functions throw Error
// (path, the system's reason, remedy).
class AtomicFile {
 public:
  // Makes `folder` and its parents if need be.
  explicit AtomicFile(const std::filesystem::path& folder) : AtomicFile(folder, true) {}
  // `unnamed` false: with a temporary name even where the file system can do without.
  AtomicFile(const std::filesystem::path& folder, bool unnamed);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // Other bytes for those from `at` on, which were written.
  void overwrite(std::uint64_t at, std::string_view text);
  [[nodiscard]] std::uint64_t written() const { return written_; }
  // Has what was written go to the disk and leave the page cache: for large files, on devices with
  // little memory.
  void settle();
  // Becomes `folder`/`name`, replacing a file of that name.
  void commit(const std::filesystem::path& name);

 private:
  void open_unnamed();
  void open_named();
  // A name for the file that has none; false if `name` is taken.
  [[nodiscard]] bool link_to(const std::filesystem::path& name) const;

  std::filesystem::path folder_;
  std::filesystem::path temporary_;  // empty: nothing to remove
  model::Descriptor file_;
  std::uint64_t written_ = 0;
  std::uint64_t settled_ = 0;
};

}  // namespace tandem::exec
