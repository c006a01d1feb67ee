#include "exec/weights/files/read_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

std::int64_t ns_of(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

FileStamp stamp_in(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .bytes = static_cast<std::uint64_t>(status.st_size),
          .modified_ns = ns_of(status.st_mtim),
          .changed_ns = ns_of(status.st_ctim)};
}

}  // namespace

std::optional<FileStamp> stamp_of(const std::filesystem::path& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return std::nullopt;
  return stamp_in(status);
}

bool is_present(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return true;
  if (!std::filesystem::is_symlink(path, ignored)) return false;
  throw Error(path.string() + ": a link to " +
              std::filesystem::read_symlink(path, ignored).string() +
              ", which does not exist; download or copy the model again, with the files that its "
              "links lead to (an interrupted download of Hugging Face's leaves such links)");
}

std::uint64_t size_of_regular(const model::Descriptor& file, const std::filesystem::path& path) {
  struct stat status {};
  if (!file.is_open() || fstat(file.number(), &status) != 0) {
    const int error = errno;
    if (error == ENOENT) static_cast<void>(is_present(path));
    throw Error(path.string() + ": cannot open: " +
                model::system_fault(error, "check the path and its permissions"));
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(path.string() + ": not a regular file, expected one; check the path");
  }
  return static_cast<std::uint64_t>(status.st_size);
}

ReadFile::ReadFile(const std::filesystem::path& path) : path_(path) {
  // Opening a pipe would wait for its writer, perhaps for ever; the type is checked afterwards.
  file_ = model::Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  size_ = size_of_regular(file_, path);
}

FileStamp ReadFile::stamp() const {
  struct stat status {};
  if (fstat(file_.number(), &status) != 0) {
    throw Error(path_.string() + ": cannot see its times: " + std::strerror(errno) +
                "; check the disk");
  }
  return stamp_in(status);
}

void ReadFile::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = pread(file_.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      throw Error(path_.string() + ": cannot read at byte " + std::to_string(offset) + ": " +
                  std::strerror(errno) + "; check the disk");
    }
    if (n == 0) {
      throw Error(path_.string() + ": ends at byte " + std::to_string(offset) + ", expected " +
                  std::to_string(bytes.size()) +
                  " more; the file was cut short, copy or download it again");
    }
    offset += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void ReadFile::forget(std::uint64_t offset, std::uint64_t bytes) const {
  posix_fadvise(file_.number(), static_cast<off_t>(offset), static_cast<off_t>(bytes),
                POSIX_FADV_DONTNEED);
}

std::string read_text(const std::filesystem::path& path, std::uint64_t limit) {
  const ReadFile file(path);
  if (file.size() > limit) {
    throw Error(path.string() + ": " + std::to_string(file.size()) + " bytes, expected at most " +
                std::to_string(limit) + "; check that it is the right file");
  }
  std::string text(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace tandem::exec
