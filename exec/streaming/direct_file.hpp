#pragma once

// Reads files past the page cache: streamed weights are used once, and cached pages would count as
// memory that a device does not have.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "model/base/descriptor.hpp"

namespace tandem::exec {

// Offsets, sizes and addresses of direct reads are multiples of this: the logical block size of
// all common disks divides it.
inline constexpr std::uint64_t kDirectAlignment = 4096;

[[nodiscard]] constexpr std::uint64_t direct_floor(std::uint64_t byte) {
  return byte / kDirectAlignment * kDirectAlignment;
}
[[nodiscard]] constexpr std::uint64_t direct_ceiling(std::uint64_t byte) {
  return direct_floor(byte + kDirectAlignment - 1);
}

struct DirectFileOptions {
  bool direct = true;  // O_DIRECT if the file system supports it
};

// An open file. Thread-safe. Move-only.
class DirectFile {
 public:
  // Throws Error (path, the system's reason, remedy) unless `path` is a regular file that opens.
  explicit DirectFile(const std::filesystem::path& path, const DirectFileOptions& options = {});

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return stamp_.size; }  // when it was opened
  [[nodiscard]] int descriptor() const { return file_.number(); }
  // False: reads go through the page cache, from which the pages are then dropped.
  [[nodiscard]] bool direct() const { return direct_; }

  // Fills `bytes`; offset, size and address are multiples of kDirectAlignment, else logic_error.
  // Throws Error if the file cannot be read or is too short.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  // Throws Error if the file has changed since it was opened: its size or time of change. A name
  // gained or lost does not count: another process may have removed it from its folder, or replaced
  // it by an equal one.
  void check_unchanged() const;
  // Drops these pages from the page cache, if it is used.
  void forget(std::uint64_t offset, std::uint64_t bytes) const;

  // Throws the Error of a read of `wanted` bytes at `offset`: the system's, or the end of the file.
  [[noreturn]] void fail(std::uint64_t offset, int error) const;
  [[noreturn]] void fail_short(std::uint64_t offset, std::uint64_t wanted) const;

 private:
  struct Stamp {
    std::uint64_t size = 0;
    std::int64_t modified_ns = 0;
    std::int64_t changed_ns = 0;
    std::uint64_t names = 0;  // links
  };
  [[nodiscard]] Stamp stamp() const;

  std::filesystem::path path_;
  model::Descriptor file_;
  bool direct_ = false;
  Stamp stamp_;
};

struct DirectReaderOptions {
  bool uring = true;  // io_uring if the kernel permits it
};

// Sequential reads with several requests in flight (io_uring), else one at a time (pread). Used by
// one thread. Allocates nothing after construction.
class DirectReader {
 public:
  explicit DirectReader(const DirectReaderOptions& options = {});
  ~DirectReader();
  DirectReader(const DirectReader&) = delete;
  DirectReader& operator=(const DirectReader&) = delete;

  // As DirectFile::read_at. Throws Error soon after `stop` becomes true.
  void read(const DirectFile& file, std::uint64_t offset, std::span<std::byte> bytes,
            const std::atomic<bool>& stop);
  // Returns how `file` is read, for results: "O_DIRECT, io_uring" and so on.
  [[nodiscard]] std::string method(const DirectFile& file) const;

 private:
  struct Ring;
  void read_by_ring(const DirectFile& file, std::uint64_t offset, std::span<std::byte> bytes,
                    const std::atomic<bool>& stop);
  std::unique_ptr<Ring> ring_;  // null: pread
};

}  // namespace tandem::exec
