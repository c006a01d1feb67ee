#include "exec/weights/files/mapped_file.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <string>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kMostFiles = 1024;
constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ, which older headers lack

// The data of the signal's handler: numbers without locks.
struct Place {
  std::atomic<std::uintptr_t> begin = 0;  // 0: free
  std::atomic<std::uintptr_t> end = 0;    // whole pages
  std::atomic<std::byte*> memory = nullptr;
  std::atomic<bool> sound = true;
};

// A handler receives an address and nothing else: the table is the one global of the process.
struct Places {
  std::array<Place, kMostFiles> all;
  std::uintptr_t page = 4096;
  struct sigaction before {};
  std::once_flag installed;
  std::mutex claims;
};

Places& places() {
  // It outlives every thread.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
  static auto* const places = new Places;
  return *places;
}

// Maps zeros from the missing page on, at once: the computing thread continues until it checks
// whether the weights were sound.
bool give_zeros(std::uintptr_t address) {
  for (Place& place : places().all) {
    const std::uintptr_t end = place.end.load();
    if (place.begin.load() == 0 || address < place.begin.load() || address >= end) continue;
    place.sound.store(false);
    const std::uintptr_t first = address / places().page * places().page;
    void* const at = place.memory.load() + (first - place.begin.load());
    return mmap(at, end - first, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at;
  }
  return false;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (give_zeros(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    errno = error;
    return;
  }
  const struct sigaction& before = places().before;
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr)
    return before.sa_sigaction(signal, info, context);
  // The instruction faults again, and ends the process.
  struct sigaction ending {};
  ending.sa_handler = SIG_DFL;
  sigaction(SIGBUS, &ending, nullptr);
}

void install() {
  std::call_once(places().installed, [] {
    places().page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGBUS, &action, &places().before);
  });
}

std::size_t claim(std::byte* memory, std::uintptr_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::lock_guard lock(places().claims);
  for (std::size_t i = 0; i < kMostFiles; ++i) {
    Place& place = places().all[i];
    if (place.begin.load() != 0) continue;
    const std::uintptr_t page = places().page;
    place.sound.store(true);
    place.end.store(begin + (bytes + page - 1) / page * page);
    place.memory.store(memory);
    place.begin.store(begin);
    return i;
  }
  return kMostFiles;
}

}  // namespace

MappedFile::MappedFile(std::shared_ptr<const ReadFile> file) : file_(std::move(file)) {
  const std::size_t size = file_->size();
  if (size == 0) return;
  install();
  void* const memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, file_->descriptor().number(), 0);
  if (memory == MAP_FAILED) {
    throw Error(file_->path().string() + ": cannot be mapped: " +
                model::system_fault(errno, "with '--copy' weights are copied instead"));
  }
  place_ = claim(static_cast<std::byte*>(memory), size);
  if (place_ == kMostFiles) {
    munmap(memory, size);
    throw Error(file_->path().string() + ": " + std::to_string(kMostFiles) +
                " files are mapped, expected fewer; with '--copy' weights are copied instead");
  }
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  places().all[place_].begin.store(0);
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::populate(std::span<const std::byte> some) const {
  if (some.empty()) return;
  // From the page's beginning on.
  const std::uintptr_t before = reinterpret_cast<std::uintptr_t>(some.data()) % places().page;
  madvise(const_cast<std::byte*>(some.data()) - before, before + some.size(), kPopulateRead);
}

void MappedFile::forget(std::span<const std::byte> some) const {
  const std::uintptr_t page = places().page;
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(some.data());
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t last = (begin + some.size()) / page * page;
  if (first >= last) return;
  madvise(const_cast<std::byte*>(some.data()) + (first - begin), last - first, MADV_DONTNEED);
}

bool MappedFile::is_sound() const { return bytes_.empty() || places().all[place_].sound.load(); }

}  // namespace tandem::exec
