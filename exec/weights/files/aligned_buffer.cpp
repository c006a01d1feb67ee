#include "exec/weights/files/aligned_buffer.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/system_fault.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20U;

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// A mapping placed by the kernel between others straddles huge pages: those at its ends remain
// small ones, and products of many rows with such weights take half as long again. So more is
// mapped than needed, and the memory before a huge page's border and after the end is released.
std::byte* map(std::size_t bytes) {
  const std::size_t spare = bytes >= kHugePageBytes ? kHugePageBytes : 0;
  const std::size_t mapped = whole_pages(bytes) + spare;
  void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error("memory: the kernel refused " + std::to_string(bytes) + " bytes: " +
                model::system_fault(errno, "free memory or give this device a smaller share"));
  }
  auto* const first = static_cast<std::byte*>(memory);
  if (spare == 0) return first;
  const std::size_t before =
      (kHugePageBytes - reinterpret_cast<std::uintptr_t>(first) % kHugePageBytes) % kHugePageBytes;
  if (before > 0) munmap(first, before);
  if (before < spare) munmap(first + before + whole_pages(bytes), spare - before);
  return first + before;
}

}  // namespace

AlignedBuffer::AlignedBuffer(std::size_t bytes) {
  if (bytes == 0) return;
  std::byte* const memory = map(bytes);
  // Only a hint: kernels without transparent huge pages refuse it, and the buffer works as well.
  madvise(memory, bytes, MADV_HUGEPAGE);
  data_ = memory;
  size_ = bytes;
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ != nullptr) munmap(data_, size_);
}

void AlignedBuffer::populate() {
  for (std::size_t at = 0; at < size_; at += kPageBytes) {
    *static_cast<volatile std::byte*>(data_ + at) = data_[at];
  }
}

}  // namespace tandem::exec
