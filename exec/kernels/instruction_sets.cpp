#include "exec/kernels/instruction_sets.hpp"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "exec/kernels/integer_product.hpp"
#include "exec/kernels/targets.hpp"
#include "model/base/error.hpp"
// After targets.hpp, which says what the kernels are compiled for.
#include <hwy/highway.h>

namespace tandem::exec {
namespace {

// A set, the first of Highway's targets that it stands for (lesser ones follow), and the best of
// the integer kernels.
struct Named {
  std::string_view name;
  std::int64_t target;
  std::string_view integers;
};

#if defined(__aarch64__)
constexpr std::array kSets{Named{"neon", HWY_NEON, "plain"}, Named{"sdot", HWY_NEON, "sdot"}};
#else
constexpr std::array kSets{Named{"plain", HWY_STATIC_TARGET, "plain"},
                           Named{"sse4", HWY_SSE4, "plain"},
                           Named{"avx2", HWY_AVX2, "avx2"},
                           Named{"avx-vnni", HWY_AVX2, "avx-vnni"},
                           Named{"avx512", HWY_AVX3, "avx512-vnni"},
                           Named{"amx", HWY_AVX3, "amx-int8"}};
#endif

}  // namespace

void choose_instruction_sets() {
  const char* const wanted = std::getenv("TANDEM_INSTRUCTIONS");
  if (wanted == nullptr) return;
  std::string names;
  for (const Named& set : kSets) {
    names += (names.empty() ? "" : ", ") + std::string(set.name);
    if (set.name != wanted) continue;
    // Better targets have lower bits. Highway's own DisableTargets is undone by any code that asks
    // for the supported ones.
    const std::int64_t targets = hwy::SupportedTargets() & ~(set.target - 1);
    const bool vectors = set.target == HWY_STATIC_TARGET || (targets & set.target) != 0;
    hwy::SetSupportedTargetsForTest(targets | HWY_STATIC_TARGET);
    hwy::GetChosenTarget().Update(targets | HWY_STATIC_TARGET);
    limit_integer_kernels(set.integers);
    if (!vectors || integer_kernels().front().name != set.integers)
      throw Error("TANDEM_INSTRUCTIONS: '" + std::string(wanted) +
                  "' is not to be had here, expected what this processor and build have; unset it "
                  "for the best");
    return;
  }
  throw Error("TANDEM_INSTRUCTIONS: unknown value '" + std::string(wanted) + "', expected one of " +
              names + "; unset it for the best");
}

std::string instruction_sets() {
  const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return std::string(hwy::TargetName(targets & -targets)) + " for floats, " +
         std::string(integer_kernels().front().name) + " for 8 bits";
}

}  // namespace tandem::exec
