#pragma once

// The instruction sets of the kernels: the best that processor and build support, unless the
// environment variable TANDEM_INSTRUCTIONS names a lesser one. Integer products give the same bits
// with all of them; sums of floats may differ in their last bits.

#include <string>

namespace tandem::exec {

// Applies TANDEM_INSTRUCTIONS, if it is set: plain, sse4, avx2, avx512 or amx; on Arm neon or sdot.
// Call it before any kernel. Throws Error for another value, and for a set that processor or build
// lack.
void choose_instruction_sets();

// Returns the sets in use, for results: "AVX3 for floats, avx512-vnni for 8 bits".
[[nodiscard]] std::string instruction_sets();

}  // namespace tandem::exec
