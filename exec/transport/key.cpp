#include "exec/transport/key.hpp"

#include <fcntl.h>
#include <openssl/rand.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "model/base/descriptor.hpp"
#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& fault) {
  throw Error("key file " + path.string() + ": " + fault);
}

std::string line_of(const Key& key) {
  std::string line;
  for (const std::byte byte : key) {
    const auto value = std::to_integer<unsigned>(byte);
    line += kHex[value >> 4U];
    line += kHex[value & 15U];
  }
  return line + '\n';
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Returns 0, or the error number of the system.
int write_line(int descriptor, std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(descriptor, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    line.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

// Brings a file to the disk and closes it. Returns 0, or the error number of the system.
int settle(model::Descriptor file) {
  // Some file systems have no fsync.
  const int fault = ::fsync(file.number()) != 0 && errno != EINVAL && errno != ENOSYS ? errno : 0;
  const int closing = ::close(file.release()) != 0 && errno != EINTR ? errno : 0;
  return fault != 0 ? fault : closing;
}

// A new file is lost with its folder's entry. Not every file system can do this, so it may fail.
void settle_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const model::Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.is_open()) static_cast<void>(::fsync(opened.number()));
}

}  // namespace

Key random_key() {
  Key key{};
  if (RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), static_cast<int>(key.size())) != 1) {
    throw Error("key: the system has no random bytes; try again");
  }
  return key;
}

Key read_key_file(const std::filesystem::path& path) {
  // Not to hang on a FIFO.
  const model::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) {
    fail(path, "cannot open: " +
                   model::system_fault(errno, "make one with `tandem worker --generate-key FILE`"));
  }
  struct stat status {};
  if (::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) {
    fail(path, "not a regular file, expected one line of 64 hexadecimal characters");
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    fail(path, "open to other users, expected a file of its owner only; run chmod 600 on it");
  }
  Key key{};
  const std::size_t digits = 2 * key.size();
  std::string text(digits + 2, '\0');  // one more than a good file has
  const ssize_t size = ::pread(file.number(), text.data(), text.size(), 0);
  if (size < 0) fail(path, std::string("cannot read: ") + std::strerror(errno));
  text.resize(static_cast<std::size_t>(size));
  if (text.ends_with('\n')) text.pop_back();
  if (text.size() != digits) {
    fail(path, (text.size() > digits ? std::string("more than 64") : std::to_string(text.size())) +
                   " characters, expected one line of 64 hexadecimal characters; copy the whole "
                   "file or make a new one");
  }
  for (std::size_t i = 0; i < key.size(); ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      fail(path, "character " + std::to_string(2 * i + (high < 0 ? 1 : 2)) +
                     " is not hexadecimal, expected one line of 64 hexadecimal characters; copy "
                     "the whole file or make a new one");
    }
    key.at(i) = static_cast<std::byte>(high * 16 + low);
  }
  return key;
}

void write_key_file(const std::filesystem::path& path, const Key& key) {
  model::Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.is_open()) {
    fail(path, std::string(std::strerror(errno)) + ", expected a new file; choose another name");
  }
  int fault = write_line(file.number(), line_of(key));
  if (fault == 0) fault = settle(std::move(file));
  if (fault != 0) {
    ::unlink(path.c_str());
    fail(path, "cannot write: " + std::string(std::strerror(fault)) +
                   "; make room or choose another place");
  }
  settle_folder_of(path);
}

void generate_key_file(const std::filesystem::path& path) { write_key_file(path, random_key()); }

int key_memory_file(const Key& key) {
  model::Descriptor file(::memfd_create("tandem-key", 0));
  int fault = !file.is_open() || ::fchmod(file.number(), S_IRUSR | S_IWUSR) != 0 ? errno : 0;
  if (fault == 0) fault = write_line(file.number(), line_of(key));
  if (fault != 0)
    throw Error("key: no memory file: " + model::system_fault(fault, "free some memory"));
  return file.release();
}

}  // namespace tandem::exec
