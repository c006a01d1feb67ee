#pragma once

// Instruction sets that the vector kernels are compiled for: a portable baseline, SSE4, AVX2 and
// AVX-512 (NEON and SVE on Arm). SSSE3 alone would cost compile time and serve nobody. Include
// before <hwy/foreach_target.h>.

#define HWY_DISABLED_TARGETS HWY_SSSE3
