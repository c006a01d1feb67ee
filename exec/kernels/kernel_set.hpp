#pragma once

// The implementation of the kernels on a device.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem::exec {

enum class KernelSet : std::uint8_t {
  tuned,  // vector instructions, chosen at run time (exec/kernels)
  eigen,  // the reference, plain Eigen expressions (exec/kernels/reference)
};
inline constexpr std::array kKernelSets{KernelSet::tuned, KernelSet::eigen};
[[nodiscard]] std::string_view to_string(KernelSet set);  // as `--kernels` names it
[[nodiscard]] std::optional<KernelSet> find_kernel_set(std::string_view name);

// Returns the default set: tuned, or eigen on a processor for which the tuned kernels have no
// vector instructions. TANDEM_INSTRUCTIONS does not change it.
[[nodiscard]] KernelSet default_kernel_set();
// The same for a processor with these of Highway's targets.
[[nodiscard]] KernelSet kernel_set_for(std::int64_t targets);

}  // namespace tandem::exec
