#pragma once

// Instruction sets that the vector kernels are compiled for, in addition to a portable baseline:
// SSE4, AVX2 and AVX-512, or NEON. SSSE3 alone would only cost compile time. On Arm there is NEON
// alone: vectors of SVE have no size at compile time, and kernels keep arrays of them. Highway's
// own NEON target needs AES, which a Raspberry Pi 4 lacks and no kernel uses. Include before
// <hwy/foreach_target.h>.

#if defined(__aarch64__)
#define HWY_BASELINE_TARGETS HWY_NEON
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#else
#define HWY_DISABLED_TARGETS HWY_SSSE3
#endif
