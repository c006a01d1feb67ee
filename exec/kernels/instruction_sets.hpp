#pragma once

// Which instruction sets the kernels use: the best that this processor and the build have, unless
// the environment variable TANDEM_INSTRUCTIONS names a lesser one. What multiplies integers gives
// the same bits with all; sums of floats may differ in their last bits.

#include <string>

namespace tandem::exec {

// Obeys TANDEM_INSTRUCTIONS, if it is set: plain, sse4, avx2, avx512 or amx; on Arm neon or sdot.
// To be called before any kernel. Throws Error for another value, and for a set that this processor
// or build lacks.
void choose_instruction_sets();

// What kernels use, for the reader of a result: "AVX3 for floats, avx512-vnni for 8 bits".
[[nodiscard]] std::string instruction_sets();

}  // namespace tandem::exec
