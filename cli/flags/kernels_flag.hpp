#pragma once

// `--kernels`: which implementation of the kernels this process computes with.

#include "cli/flags/options.hpp"
#include "exec/kernels/kernel_set.hpp"

namespace tandem::cli {

inline constexpr Flag kKernelsFlag{
    "kernels", "SET",
    "compute with tuned kernels, or eigen, the reference [tuned; eigen without SSE4 or NEON]"};

// The set that `--kernels` names, exec::default_kernel_set() without the flag. Throws Error if it
// names no set.
[[nodiscard]] exec::KernelSet kernels_of(const Options& options);

}  // namespace tandem::cli
