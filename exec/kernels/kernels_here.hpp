#pragma once

// The kernels of this program on this machine, for recognising profiles measured with others.

#include <cstdint>
#include <string>
#include <vector>

#include "exec/kernels/kernel_set.hpp"
#include "model/predict/device_profile.hpp"

namespace tandem::exec {

// The generation of all kernels' speed. Incremented with every change by which any of them, for any
// format or instruction set, takes another time beyond noise (about 5%): older profiles would then
// predict outdated times. Not for changes of form or new formats. `.ci/kernels` reminds of it when
// sources of exec/kernels change.
inline constexpr std::int64_t kKernelGeneration = 3;

// Returns the make of this machine's processor, as the kernel reports it: "AMD EPYC, family 25,
// model 1", "Arm 0x41 0xd08"; empty if unknown.
[[nodiscard]] std::string processor_here();

// Returns the kernels of `set`. After choose_instruction_sets().
[[nodiscard]] model::MeasuredKernels kernels_here(KernelSet set);
// Returns those of every set, as `run --kernels` may use any.
[[nodiscard]] std::vector<model::MeasuredKernels> kernels_here();

}  // namespace tandem::exec
