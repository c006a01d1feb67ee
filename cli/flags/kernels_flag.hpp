#pragma once

// `--kernels`: which implementation of the kernels this process computes with.

#include "cli/flags/options.hpp"
#include "exec/kernels/kernel_set.hpp"

namespace tandem::cli {

inline constexpr Flag kKernelsFlag{"kernels", "SET",
                                   "compute with tuned kernels, or eigen, the reference [tuned]"};

// What `--kernels` says, exec::default_kernel_set() if it is not given. Throws Usage for a set that
// there is not.
[[nodiscard]] exec::KernelSet kernels_of(const Options& options);

}  // namespace tandem::cli
