#include "exec/kernels/kernel_set.hpp"

#include <stdexcept>

#include "exec/kernels/targets.hpp"
// After targets.hpp, which says what the kernels are compiled for.
#include <hwy/highway.h>

namespace tandem::exec {

std::string_view to_string(KernelSet set) {
  switch (set) {
    case KernelSet::tuned:
      return "tuned";
    case KernelSet::eigen:
      return "eigen";
  }
  throw std::logic_error("kernel set out of range");
}

std::optional<KernelSet> find_kernel_set(std::string_view name) {
  for (const KernelSet set : kKernelSets) {
    if (to_string(set) == name) return set;
  }
  return std::nullopt;
}

KernelSet kernel_set_for(std::int64_t targets) {
  constexpr std::int64_t kWithoutVectors = HWY_EMU128 | HWY_SCALAR;
  return (targets & ~kWithoutVectors) != 0 ? KernelSet::tuned : KernelSet::eigen;
}

KernelSet default_kernel_set() {
  static const KernelSet chosen = kernel_set_for(hwy::SupportedTargets() & HWY_TARGETS);
  return chosen;
}

namespace {

// Before TANDEM_INSTRUCTIONS or a test limits Highway's targets: that chooses among the tuned
// kernels, whose plain code is one of them.
[[maybe_unused]] const KernelSet at_start = default_kernel_set();

}  // namespace

}  // namespace tandem::exec
