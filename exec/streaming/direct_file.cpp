#include "exec/streaming/direct_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "exec/weights/files/aligned_buffer.hpp"
#include "exec/weights/files/read_file.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr int kOpen = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // a pipe would wait for its writer

std::int64_t time_ns(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Some file systems accept the flag and refuse the reads.
bool reads_directly(int descriptor) {
  AlignedBuffer probe(kDirectAlignment);
  return pread(descriptor, probe.data(), probe.size(), 0) >= 0;
}

}  // namespace

DirectFile::DirectFile(const std::filesystem::path& path, const DirectFileOptions& options)
    : path_(path) {
  if (options.direct) {
    file_ = model::Descriptor(open(path.c_str(), kOpen | O_DIRECT));
    direct_ = file_.is_open() && reads_directly(file_.number());
  }
  if (!direct_) file_ = model::Descriptor(open(path.c_str(), kOpen));
  static_cast<void>(size_of_regular(file_, path));
  stamp_ = stamp();
}

DirectFile::Stamp DirectFile::stamp() const {
  struct stat status {};
  if (fstat(file_.number(), &status) != 0) fail(0, errno);
  return {.size = static_cast<std::uint64_t>(status.st_size),
          .modified_ns = time_ns(status.st_mtim),
          .changed_ns = time_ns(status.st_ctim),
          .names = status.st_nlink};
}

void DirectFile::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  require(offset % kDirectAlignment == 0 && bytes.size() % kDirectAlignment == 0 &&
              reinterpret_cast<std::uintptr_t>(bytes.data()) % kDirectAlignment == 0,
          "DirectFile: an aligned read");
  const std::uint64_t first = offset;
  while (!bytes.empty()) {
    const ssize_t n = pread(file_.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(offset, errno);
    // A direct read ends off the grid at the end of the file only.
    if (n == 0 || static_cast<std::uint64_t>(n) % kDirectAlignment != 0) {
      fail_short(offset + static_cast<std::uint64_t>(n),
                 bytes.size() - static_cast<std::size_t>(n));
    }
    offset += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  forget(first, offset - first);
}

void DirectFile::check_unchanged() const {
  const Stamp now = stamp();
  const bool written = now.size != stamp_.size || now.modified_ns != stamp_.modified_ns;
  // Losing a name sets the time of change too.
  if (!written && (now.changed_ns == stamp_.changed_ns || now.names != stamp_.names)) return;
  throw Error(path_.string() + ": changed while it was in use (" + std::to_string(now.size) +
              " bytes, " + std::to_string(stamp_.size) +
              " when it was opened); let nothing write to it and start again");
}

void DirectFile::forget(std::uint64_t offset, std::uint64_t bytes) const {
  if (direct_) return;
  posix_fadvise(file_.number(), static_cast<off_t>(offset), static_cast<off_t>(bytes),
                POSIX_FADV_DONTNEED);
}

void DirectFile::fail(std::uint64_t offset, int error) const {
  throw Error(path_.string() + ": cannot read at byte " + std::to_string(offset) + ": " +
              std::strerror(error) + "; check the disk");
}

void DirectFile::fail_short(std::uint64_t offset, std::uint64_t wanted) const {
  throw Error(path_.string() + ": ends at byte " + std::to_string(offset) + ", expected " +
              std::to_string(wanted) + " more; the file was cut short, remove it and start again");
}

}  // namespace tandem::exec
