#pragma once

// A file's bytes as memory, without a copy.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "exec/weights/files/read_file.hpp"

namespace tandem::exec {

// Read-only. Bytes lost while the file is mapped, because it was truncated or the disk failed, read
// as zeros instead of ending the process (SIGBUS), and is_sound() is false from then on: results
// are valid only if is_sound() is still true afterwards. Thread-safe. Not movable, as the signal's
// handler has its address.
class MappedFile {
 public:
  // Maps the size that the file had when it was opened. Throws Error (path, the system's reason,
  // remedy) if the kernel refuses, or if a thousand files are mapped.
  explicit MappedFile(std::shared_ptr<const ReadFile> file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] const ReadFile& file() const { return *file_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  // Makes the kernel provide the pages of `some` of the bytes now, so that no product waits for
  // one. Kernels before Linux 5.14 provide them on access.
  void populate(std::span<const std::byte> some) const;
  // Releases the pages of `some` of the bytes, which are not needed soon; only pages that contain
  // no other bytes.
  void forget(std::span<const std::byte> some) const;
  [[nodiscard]] bool is_sound() const;

 private:
  std::shared_ptr<const ReadFile> file_;
  std::span<const std::byte> bytes_;
  std::size_t place_ = 0;  // in the handler's table
};

}  // namespace tandem::exec
