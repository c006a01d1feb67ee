#pragma once

// Working memory of a thread's kernels: on the heap, allocated once a thread, at the start of its
// pool or, for other threads, by the first kernel that needs it; freed with the thread. Its pages
// take memory only once a kernel has written there.

#include <cstddef>

namespace tandem::exec {

// Its parts, which are in use at the same time.
struct KernelScratch {
  static constexpr std::size_t kInputBytes = std::size_t{512} * 1024;
  static constexpr std::size_t kPanelBytes = std::size_t{768} * 1024;
  static constexpr std::size_t kTileFloats = std::size_t{64} * 1024;
  std::byte* inputs = nullptr;  // of products in 8 bits; of many tokens' products of floats
  std::byte* panel = nullptr;   // weights that many tokens read; with AVX2 their inputs in 8 bits
  float* tile = nullptr;        // rows that were decoded; with AVX2 sums of many tokens, too
};

// Returns the calling thread's memory, each part at a multiple of 64 bytes, with arbitrary
// contents.
[[nodiscard]] KernelScratch kernel_scratch();

}  // namespace tandem::exec
