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

bool write_line(int descriptor, const std::string& line) {
  return ::write(descriptor, line.data(), line.size()) == static_cast<ssize_t>(line.size());
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
  const model::Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.is_open()) {
    fail(path, std::string(std::strerror(errno)) + ", expected a new file; choose another name");
  }
  if (!write_line(file.number(), line_of(key))) {
    const std::string reason = std::strerror(errno);
    ::unlink(path.c_str());
    fail(path, "cannot write: " + reason + "; make room or choose another place");
  }
}

void generate_key_file(const std::filesystem::path& path) { write_key_file(path, random_key()); }

int key_memory_file(const Key& key) {
  model::Descriptor file(::memfd_create("tandem-key", 0));
  if (!file.is_open() || ::fchmod(file.number(), S_IRUSR | S_IWUSR) != 0 ||
      !write_line(file.number(), line_of(key))) {
    throw Error("key: no memory file: " + model::system_fault(errno, "free some memory"));
  }
  return file.release();
}

}  // namespace tandem::exec
