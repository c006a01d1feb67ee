#include "exec/kernels/scratch.hpp"

#include <memory>
#include <new>

namespace tandem::exec {
namespace {

constexpr std::align_val_t kLine{64};

struct Free {
  void operator()(std::byte* memory) const { ::operator delete(memory, kLine); }
};

}  // namespace

KernelScratch kernel_scratch() {
  constexpr std::size_t kTileAt = KernelScratch::kInputBytes + KernelScratch::kPanelBytes;
  constexpr std::size_t kBytes = kTileAt + KernelScratch::kTileFloats * sizeof(float);
  thread_local const std::unique_ptr<std::byte, Free> memory(
      static_cast<std::byte*>(::operator new(kBytes, kLine)));
  return {.inputs = memory.get(),
          .panel = memory.get() + KernelScratch::kInputBytes,
          .tile = reinterpret_cast<float*>(memory.get() + kTileAt)};
}

}  // namespace tandem::exec
