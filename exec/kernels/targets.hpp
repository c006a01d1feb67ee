#pragma once

// Instruction sets that the vector kernels are compiled for, besides a portable baseline: SSE4,
// AVX2 and AVX-512, or NEON. SSSE3 alone would cost compile time and serve nobody. On Arm there is
// NEON alone: vectors of SVE have no size at compile time, and kernels keep arrays of them. Highway
// takes NEON for something to look for, as its own needs AES, which a Raspberry Pi 4 lacks and no
// kernel uses. Include before <hwy/foreach_target.h>.

#if defined(__aarch64__)
#define HWY_BASELINE_TARGETS HWY_NEON
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#else
#define HWY_DISABLED_TARGETS HWY_SSSE3
#endif
