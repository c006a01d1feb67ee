#include "exec/weights/aligned_buffer.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "model/error.hpp"

namespace tandem::exec {

AlignedBuffer::AlignedBuffer(std::size_t bytes) {
  if (bytes == 0) return;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error("memory: the kernel refused " + std::to_string(bytes) + " bytes (" +
                std::strerror(errno) + "); free memory or give this device a smaller share");
  }
  // Only a hint: kernels without transparent huge pages refuse it, and the buffer works as well.
  madvise(memory, bytes, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(memory);
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
  constexpr std::size_t kPageBytes = 4096;
  for (std::size_t at = 0; at < size_; at += kPageBytes) {
    *static_cast<volatile std::byte*>(data_ + at) = data_[at];
  }
}

}  // namespace tandem::exec
