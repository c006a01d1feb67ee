#pragma once

// A file's bytes as memory, without a copy of them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "exec/weights/files/read_file.hpp"

namespace tandem::exec {

// Read-only. What the file loses while it is mapped, because it is cut short or the disk cannot
// read it, reads as zeros instead of ending the process (SIGBUS), and is_sound() is false from then
// on: what was computed from the bytes is worth nothing unless is_sound() says so afterwards.
// Thread-safe. Stays where it is, as the signal's handler knows its place.
class MappedFile {
 public:
  // Of the size that the file had when it was opened. Throws Error (path, the system's reason,
  // remedy) if the kernel refuses, or a thousand files are mapped.
  explicit MappedFile(std::shared_ptr<const ReadFile> file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] const ReadFile& file() const { return *file_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  // Has the kernel provide the pages of `some` of the bytes now, so that no product waits for one.
  // Kernels before Linux 5.14 provide them when they are touched.
  void populate(std::span<const std::byte> some) const;
  // Gives back the pages of `some` of the bytes, which are not needed soon: whole ones alone, as
  // others have bytes besides.
  void forget(std::span<const std::byte> some) const;
  [[nodiscard]] bool is_sound() const;

 private:
  std::shared_ptr<const ReadFile> file_;
  std::span<const std::byte> bytes_;
  std::size_t place_ = 0;  // in the handler's table
};

}  // namespace tandem::exec
