#pragma once

#include <cstddef>
#include <span>

namespace tandem::exec {

// Zeroed memory from the kernel, aligned to a page, from 2 MiB on to a huge page; requests huge
// pages. Move-only owner.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Throws Error (bytes asked for, remedy) if the kernel refuses.
  explicit AlignedBuffer(std::size_t bytes);
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  ~AlignedBuffer();

  // Makes the kernel provide every page now, so that later accesses cause no page faults.
  void populate();

  [[nodiscard]] std::byte* data() { return data_; }
  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<float> floats() {
    return {reinterpret_cast<float*>(data_), size_ / sizeof(float)};
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tandem::exec
