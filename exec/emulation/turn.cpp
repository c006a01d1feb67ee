#include "exec/emulation/turn.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <ctime>
#include <string>

#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

constexpr std::uint64_t kMark = 0x74616e64656d0001;  // that a file is one of these
constexpr std::size_t kFileBytes = 4096;             // a page
// How soon a waiting thread notices that it was cancelled: its place in the queue is lost then.
constexpr long kLookEveryNs = 200'000'000;

[[noreturn]] void fail(const std::string& what, int error) {
  throw Error("turns of emulated devices: " + what + ": " +
              model::system_fault(error, "run without '--emulate', or on another kernel"));
}

timespec soon(clockid_t clock) {
  timespec when{};
  clock_gettime(clock, &when);
  when.tv_nsec += kLookEveryNs;
  if (when.tv_nsec >= 1'000'000'000) {
    when.tv_nsec -= 1'000'000'000;
    when.tv_sec += 1;
  }
  return when;
}

// Returns 0, or the error number: ETIMEDOUT after kLookEveryNs.
int lock_soon(pthread_mutex_t& mutex) {
#ifndef __SANITIZE_THREAD__  // which does not know this way of locking
  const timespec until = soon(CLOCK_MONOTONIC);
  const int error = pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until);
  // Before Linux 5.14 only the wall clock ends the wait for such a mutex, however it is set.
  if (error != EINVAL) return error;
#endif
  const timespec wall = soon(CLOCK_REALTIME);
  return pthread_mutex_timedlock(&mutex, &wall);
}

}  // namespace

struct SharedTurn::Shared {
  std::uint64_t mark;
  pthread_mutex_t mutex;
};

SharedTurn::SharedTurn() {
  // Inherited across exec on purpose: the workers of an emulation are given its number.
  descriptor_ = ::memfd_create("tandem-turn", 0);
  owns_descriptor_ = true;
  if (descriptor_ < 0) fail("no memory file", errno);
  if (::ftruncate(descriptor_, kFileBytes) != 0) {
    const int error = errno;
    ::close(descriptor_);
    fail("no room", error);
  }
  map();
  pthread_mutexattr_t attributes;
  int error = pthread_mutexattr_init(&attributes);
  if (error == 0) error = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  if (error == 0) error = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  if (error == 0) error = pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
  if (error == 0) error = pthread_mutex_init(&shared_->mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  if (error != 0) {
    ::munmap(shared_, kFileBytes);
    ::close(descriptor_);
    fail("no mutex between processes", error);
  }
  shared_->mark = kMark;
}

SharedTurn::SharedTurn(const std::filesystem::path& file)
    : SharedTurn(::open(file.c_str(), O_RDWR | O_CLOEXEC), /*owns=*/true) {}

SharedTurn::SharedTurn(int descriptor, bool owns)
    : descriptor_(descriptor), owns_descriptor_(owns && descriptor >= 0) {
  struct stat status {};
  const bool sized = ::fstat(descriptor, &status) == 0 && status.st_size == kFileBytes;
  if (sized) map();
  if (!sized || shared_->mark != kMark) {
    if (sized) ::munmap(shared_, kFileBytes);
    if (owns_descriptor_) ::close(descriptor);
    throw Error(
        "turns of emulated devices: descriptor " + std::to_string(descriptor) +
        " is not their file; let `tandem run --emulate` or `tandem testbed` start the workers");
  }
}

SharedTurn::~SharedTurn() {
  ::munmap(shared_, kFileBytes);
  if (owns_descriptor_) ::close(descriptor_);
}

void SharedTurn::map() {
  void* memory = ::mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    if (owns_descriptor_) ::close(descriptor_);
    fail("cannot map their file", error);
  }
  shared_ = static_cast<Shared*>(memory);
}

void SharedTurn::take() {
  for (;;) {
    if (cancelled_) throw Error("cancelled");
    const int error = lock_soon(shared_->mutex);
    if (error == 0) return;
    if (error == EOWNERDEAD) {  // nothing but the turn itself was in its hands
      pthread_mutex_consistent(&shared_->mutex);
      return;
    }
    if (error != ETIMEDOUT) fail("cannot wait", error);
  }
}

void SharedTurn::give_back() noexcept { pthread_mutex_unlock(&shared_->mutex); }

}  // namespace tandem::exec
