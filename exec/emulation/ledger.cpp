#include "exec/emulation/ledger.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <new>
#include <string>

#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

static_assert(std::atomic<std::int64_t>::is_always_lock_free);
static_assert(Clock::period::den == std::nano::den, "the ledger counts nanoseconds");

constexpr std::size_t kLedgerPageBytes = 4096;
constexpr std::size_t kLineBytes = 64;

[[noreturn]] void fail(const std::string& what) {
  throw Error("link ledger: " + what + ": " + model::system_fault(errno, "free some memory"));
}

std::size_t pages_for(std::size_t bytes) {
  return (bytes + kLedgerPageBytes - 1) / kLedgerPageBytes * kLedgerPageBytes;
}

}  // namespace

// One clock a cache line: nanoseconds of the steady clock until which the link is taken.
struct Ledger::Shared {
  alignas(kLineBytes) std::atomic<std::int64_t> busy_until;
};

Ledger::Ledger(const model::Cluster& cluster) {
  lay_out(cluster);
  // Inherited across exec on purpose: the workers of an emulation are given its number.
  descriptor_ = ::memfd_create("tandem-ledger", 0);
  owns_descriptor_ = true;
  if (descriptor_ < 0) fail("no memory file");
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes_)) != 0) {
    ::close(descriptor_);
    fail("no room");
  }
  map();  // a new file is all zero: every link is free
}

Ledger::Ledger(const model::Cluster& cluster, int descriptor) : descriptor_(descriptor) {
  lay_out(cluster);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || static_cast<std::size_t>(status.st_size) != bytes_) {
    throw Error("link ledger: descriptor " + std::to_string(descriptor) +
                " is not the ledger of this cluster, expected " + std::to_string(bytes_) +
                " bytes; let `tandem run --emulate` start the workers");
  }
  map();
}

Ledger::~Ledger() {
  ::munmap(shared_, bytes_);
  if (owns_descriptor_) ::close(descriptor_);
}

void Ledger::lay_out(const model::Cluster& cluster) {
  std::size_t slots = 0;
  for (const model::Link& link : cluster.links()) {
    links_.push_back(
        {.slot = slots, .sharing = link.sharing, .seconds_per_byte = 1.0 / link.bandwidth.value()});
    switch (link.sharing) {
      case model::Sharing::shared:
        slots += 1;
        break;
      case model::Sharing::split_duplex:
        slots += 2;
        break;
      case model::Sharing::fatpipe:
        break;
    }
  }
  bytes_ = pages_for(std::max<std::size_t>(slots, 1) * sizeof(Shared));
}

void Ledger::map() {
  void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED) {
    if (owns_descriptor_) ::close(descriptor_);
    fail("cannot map");
  }
  shared_ = static_cast<Shared*>(memory);
}

Clock::time_point Ledger::reserve(std::span<const model::Hop> hops, std::size_t bytes,
                                  Clock::time_point start) {
  const std::int64_t start_ns = start.time_since_epoch().count();
  std::int64_t end_ns = start_ns;
  for (const model::Hop& hop : hops) {
    const LinkClock& link = links_.at(static_cast<std::size_t>(hop.link));
    const auto length_ns =
        static_cast<std::int64_t>(static_cast<double>(bytes) * link.seconds_per_byte * 1e9);
    std::size_t slot = link.slot;
    switch (link.sharing) {
      case model::Sharing::fatpipe:
        end_ns = std::max(end_ns, start_ns + length_ns);
        continue;
      case model::Sharing::split_duplex:
        slot += hop.direction == model::Direction::down ? 1 : 0;
        break;
      case model::Sharing::shared:
        break;
    }
    std::atomic<std::int64_t>& clock = shared_[slot].busy_until;
    std::int64_t busy = clock.load(std::memory_order_relaxed);
    std::int64_t until = 0;
    do {
      until = std::max(busy, start_ns) + length_ns;
    } while (!clock.compare_exchange_weak(busy, until, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
    end_ns = std::max(end_ns, until);
  }
  return Clock::time_point(Clock::duration(end_ns));
}

}  // namespace tandem::exec
