#include "exec/weights/files/atomic_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = ".tandem-partial-";

[[noreturn]] void fail(const fs::path& path, const std::string& what, int error) {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  const std::string remedy =
      full ? "free space (or raise the limit of a file's size), or choose another folder"
           : "check the path and its permissions";
  throw Error(path.string() + ": " + what + ": " + model::system_fault(error, remedy));
}

fs::path partial_name(const fs::path& folder) {
  std::random_device random;
  return folder / (std::string(kPrefix) + std::to_string(random()));
}

// True: it was free and is now locked here. Nothing: this file system has no locks.
std::optional<bool> lock(int descriptor) {
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK || errno == EINTR) return false;
  return std::nullopt;
}

bool is_old(const fs::path& path) {
  std::error_code ignored;
  const auto changed = fs::last_write_time(path, ignored);
  return !ignored && fs::file_time_type::clock::now() - changed > std::chrono::hours(24);
}

// Removes files left behind by killed processes. Without locks, those that no writer has touched
// for a day.
void remove_stale(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (!entry.path().filename().string().starts_with(kPrefix)) continue;
    if (!fs::is_regular_file(entry.symlink_status(ignored))) continue;
    const model::Descriptor left(
        open(entry.path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!left.is_open()) continue;
    if (lock(left.number()).value_or(is_old(entry.path()))) fs::remove(entry.path(), ignored);
  }
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& folder, bool unnamed) : folder_(folder) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) fail(folder_, "cannot make this folder", error.value());
  remove_stale(folder_);
  if (unnamed) open_unnamed();
  if (!file_.is_open()) open_named();
}

void AtomicFile::open_unnamed() {
  // Its name is made through /proc, which is not everywhere.
  if (access("/proc/self/fd", X_OK) != 0) return;
  file_ = model::Descriptor(open(folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
  // For the moment in which it has a temporary name, to replace another.
  if (file_.is_open()) static_cast<void>(lock(file_.number()));
}

void AtomicFile::open_named() {
  for (int attempt = 0; !file_.is_open(); ++attempt) {
    const fs::path candidate = partial_name(folder_);
    model::Descriptor made(open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!made.is_open()) {
      if (errno == EEXIST && attempt < 100) continue;
      fail(folder_, "cannot make a file here", errno);
    }
    // Another writer may have taken it for a leftover before it was locked.
    struct stat status {};
    if (lock(made.number()).value_or(true) && fstat(made.number(), &status) == 0 &&
        status.st_nlink > 0) {
      file_ = std::move(made);
      temporary_ = candidate;
    } else if (attempt >= 100) {
      fail(folder_, "cannot keep a file here", EBUSY);
    }
  }
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : folder_(std::move(other.folder_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::move(other.file_)),
      written_(other.written_),
      settled_(other.settled_) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(temporary_, other.temporary_);
  std::swap(file_, other.file_);
  std::swap(written_, other.written_);
  std::swap(settled_, other.settled_);
  return *this;
}

AtomicFile::~AtomicFile() {
  file_.close();
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file_.number(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(folder_, "cannot write after " + std::to_string(written_) + " bytes", errno);
    written_ += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void AtomicFile::overwrite(std::uint64_t at, std::string_view text) {
  require(at + text.size() <= written_, "file: only what was written is written over");
  while (!text.empty()) {
    const ssize_t n = ::pwrite(file_.number(), text.data(), text.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(folder_, "cannot write at " + std::to_string(at) + " bytes", errno);
    at += static_cast<std::uint64_t>(n);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

void AtomicFile::settle() {
  const auto at = static_cast<off_t>(settled_);
  const auto bytes = static_cast<off_t>(written_ - settled_);
  // File systems without it (EINVAL, ENOSYS) write when they like; errors of the disk are reported.
  constexpr unsigned kThrough =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (sync_file_range(file_.number(), at, bytes, kThrough) != 0 && errno != EINVAL &&
      errno != ENOSYS && errno != ESPIPE) {
    fail(folder_, "cannot write after " + std::to_string(settled_) + " bytes", errno);
  }
  posix_fadvise(file_.number(), at, bytes, POSIX_FADV_DONTNEED);
  settled_ = written_;
}

bool AtomicFile::link_to(const fs::path& name) const {
  const std::string self = "/proc/self/fd/" + std::to_string(file_.number());
  if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) return true;
  if (errno == EEXIST) return false;
  fail(name, "cannot give the finished file its name", errno);
}

void AtomicFile::commit(const fs::path& name) {
  // Closing reports late errors of the disk (quota, network file systems). The file itself stays
  // open, and with it the lock, until it has its name.
  const int copy = dup(file_.number());
  if (copy < 0 || close(copy) != 0) fail(folder_, "cannot finish writing", errno);
  const fs::path target = folder_ / name;
  if (temporary_.empty() && !link_to(target)) {
    // A link replaces nothing, a rename does.
    for (int attempt = 0; temporary_.empty(); ++attempt) {
      const fs::path candidate = partial_name(folder_);
      if (link_to(candidate)) {
        temporary_ = candidate;
      } else if (attempt == 100) {
        fail(folder_, "cannot make a file here", EEXIST);
      }
    }
  }
  if (!temporary_.empty() && rename(temporary_.c_str(), target.c_str()) != 0) {
    fail(target, "cannot give the finished file its name", errno);
  }
  temporary_.clear();
  file_.close();
}

}  // namespace tandem::exec
