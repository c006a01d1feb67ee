#pragma once

// Which kernels this program has on this machine, so that a profile that was measured with others
// is known by it.

#include <cstdint>
#include <string>
#include <vector>

#include "exec/kernels/kernel_set.hpp"
#include "model/predict/device_profile.hpp"

namespace tandem::exec {

// Of the speed of all kernels together. One more with every change by which any of them, for any
// format or instruction set, takes another time than before beyond noise (some 5%): profiles of
// before would predict times that are not had any more. Not for changes of form, nor for new
// formats. When sources of exec/kernels change, `.ci/kernels` asks for it.
inline constexpr std::int64_t kKernelGeneration = 3;

// The make of this machine's processor, as the kernel tells it: "AMD EPYC, family 25, model 1",
// "Arm 0x41 0xd08"; empty if it does not.
[[nodiscard]] std::string processor_here();

// Those of `set`. After choose_instruction_sets().
[[nodiscard]] model::MeasuredKernels kernels_here(KernelSet set);
// Those of every set, as `run --kernels` may use any.
[[nodiscard]] std::vector<model::MeasuredKernels> kernels_here();

}  // namespace tandem::exec
