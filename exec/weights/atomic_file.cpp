#include "exec/weights/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include "model/error.hpp"

namespace tandem::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = ".tandem-partial-";

[[noreturn]] void fail(const fs::path& path, const std::string& what, int error) {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  const std::string remedy =
      full ? "free space (or raise the limit of a file's size), or choose another folder"
           : "check the path and its permissions";
  throw Error(path.string() + ": " + what + ": " + std::strerror(error) + "; " + remedy);
}

// What a killed process left behind: no writer takes a day.
void remove_stale(const fs::path& folder) {
  std::error_code ignored;
  const auto now = fs::file_time_type::clock::now();
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (!entry.path().filename().string().starts_with(kPrefix)) continue;
    const auto changed = entry.last_write_time(ignored);
    if (!ignored && now - changed > std::chrono::hours(24)) fs::remove(entry.path(), ignored);
  }
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& folder) : folder_(folder) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) fail(folder_, "cannot make this folder", error.value());
  remove_stale(folder_);
  std::random_device random;
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    const fs::path candidate = folder_ / (std::string(kPrefix) + std::to_string(random()));
    descriptor_ = open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) {
      temporary_ = candidate;
    } else if (errno != EEXIST || attempt == 100) {
      fail(folder_, "cannot make a file here", errno);
    }
  }
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : folder_(std::move(other.folder_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      written_(other.written_),
      settled_(other.settled_) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(temporary_, other.temporary_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(written_, other.written_);
  std::swap(settled_, other.settled_);
  return *this;
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(folder_, "cannot write after " + std::to_string(written_) + " bytes", errno);
    written_ += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void AtomicFile::settle() {
  const auto at = static_cast<off_t>(settled_);
  const auto bytes = static_cast<off_t>(written_ - settled_);
  // File systems without it (EINVAL, ENOSYS) write when they like; what the disk refuses is told.
  constexpr unsigned kThrough =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (sync_file_range(descriptor_, at, bytes, kThrough) != 0 && errno != EINVAL &&
      errno != ENOSYS && errno != ESPIPE) {
    fail(folder_, "cannot write after " + std::to_string(settled_) + " bytes", errno);
  }
  posix_fadvise(descriptor_, at, bytes, POSIX_FADV_DONTNEED);
  settled_ = written_;
}

void AtomicFile::commit(const fs::path& name) {
  // close reports what the disk refused late (quota, network file systems).
  if (close(std::exchange(descriptor_, -1)) != 0) fail(folder_, "cannot finish writing", errno);
  const fs::path target = folder_ / name;
  if (rename(temporary_.c_str(), target.c_str()) != 0) {
    fail(target, "cannot give the finished file its name", errno);
  }
  temporary_.clear();
}

}  // namespace tandem::exec
