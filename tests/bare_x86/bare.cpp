// The program of an emulated machine without an operating system: every vector kernel for integers
// makes every product, and what differs from plain code's results is told at port 0xe9.

#include <cstddef>
#include <cstdint>

#include "exec/kernels/scratch.hpp"
#include "tests/bare_x86/products.hpp"

namespace {

constexpr std::uint64_t kExpected[] = {
#include "expected.inc"
};
static_assert(std::size(kExpected) == tandem::bare::kProducts);

void tell(const char* text) {
  for (; *text != 0; ++text) asm volatile("outb %0, $0xe9" : : "a"(*text));
}
void tell(std::uint64_t number) {
  char digits[24] = {};
  char* at = digits + sizeof digits - 1;
  do *--at = static_cast<char>('0' + number % 10);
  while ((number /= 10) != 0);
  tell(at);
}

alignas(64) std::byte scratch_inputs[tandem::exec::KernelScratch::kInputBytes];
alignas(64) std::byte scratch_panel[tandem::exec::KernelScratch::kPanelBytes];
alignas(64) float scratch_tile[tandem::exec::KernelScratch::kTileFloats];
alignas(64) float x[tandem::bare::kMostNumbers];
alignas(64) float y[tandem::bare::kMostNumbers];
alignas(64) std::byte w[tandem::bare::kMostWeightBytes];
alignas(64) std::byte inputs[tandem::bare::kMostNumbers * 2];

}  // namespace

namespace tandem::exec {
KernelScratch kernel_scratch() { return {scratch_inputs, scratch_panel, scratch_tile}; }
}  // namespace tandem::exec

extern "C" {
void* memcpy(void* to, const void* from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) static_cast<char*>(to)[i] = static_cast<const char*>(from)[i];
  return to;
}
void* memset(void* to, int byte, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) static_cast<char*>(to)[i] = static_cast<char>(byte);
  return to;
}
// Leave to use tiles is what start.S takes.
long syscall(long /*number*/, ...) { return 0; }
int __cpu_indicator_init();

void bare_main() {
  using namespace tandem;
  __cpu_indicator_init();
  const exec::IntegerKernels* const all[] = {exec::amx_kernels(), exec::vnni_kernels(),
                                             exec::vnni_lanes_kernels(), exec::avx_vnni_kernels(),
                                             exec::avx2_kernels()};
  for (const exec::IntegerKernels* const kernels : all) {
    if (kernels == nullptr) {
      tell("FAILED: the emulated processor lacks instructions\n");
      continue;
    }
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < bare::kProducts; ++i) {
      const bare::Product product(i, x, w);
      if (product.digest(*kernels, x, w, inputs, y) == kExpected[i]) continue;
      if (wrong++ != 0) continue;
      tell("first wrong: format ");
      tell(static_cast<std::uint64_t>(product.format));
      tell(", tokens ");
      tell(static_cast<std::uint64_t>(product.size.tokens));
      tell(", outputs ");
      tell(static_cast<std::uint64_t>(product.size.outputs));
      tell(", depth ");
      tell(static_cast<std::uint64_t>(product.depth));
      tell("\n");
    }
    tell(wrong == 0 ? "passed: " : "FAILED: ");
    tell(kernels->name.data());
    tell(", ");
    tell(bare::kProducts - wrong);
    tell(" products of ");
    tell(bare::kProducts);
    tell("\n");
  }
  tell("the end\n");
  constexpr std::uint16_t kShutdown = 0x8900;  // Bochs's port for it
  for (const char* at = "Shutdown"; *at != 0; ++at)
    asm volatile("outb %0, %1" : : "a"(*at), "Nd"(kShutdown));
}
}
