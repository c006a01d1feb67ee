#pragma once

// The choice of the fastest integer kernel, by format and by the number of tokens: cpuid tells
// which run, not how fast. All give the same bits (integer_product.hpp), so only times change.
// Measured once for a processor and stored; not measured if there is only one kernel in addition to
// plain code.

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/kernels/integer_product.hpp"
#include "model/transformer/weight_format.hpp"

namespace tandem::exec {

// At most kFewTokens, or more.
enum class TokenCount : std::uint8_t { few, many };
inline constexpr std::array kTokenCounts{TokenCount::few, TokenCount::many};
[[nodiscard]] constexpr TokenCount token_count(std::int64_t tokens) {
  return tokens <= kFewTokens ? TokenCount::few : TokenCount::many;
}

// Times of a small product with each of the kernels, in their order.
struct KernelTimes {
  model::WeightFormat format = model::WeightFormat::q8_0;
  TokenCount tokens = TokenCount::few;
  std::vector<double> ns{};
  bool operator==(const KernelTimes&) const = default;
};

// Returns the index of the kernel to use: the first, unless others are faster by more than 5%,
// which is above noise; then the fastest. 0 if a time is missing.
[[nodiscard]] std::size_t fastest(std::span<const double> ns);

// Calls `work` and returns its time in nanoseconds.
using Stopwatch = std::function<double(const std::function<void()>& work)>;

// Returns the least times of all formats' products with `kernels`, for 1 and for 64 tokens, over
// several interleaved rounds: about 30 ms for three equally fast kernels on an AMD Zen 3.
[[nodiscard]] std::vector<KernelTimes> measure_kernels(std::span<const IntegerKernels> kernels,
                                                       const Stopwatch& stopwatch);

// Returns measure_kernels(), or its earlier result in any process with `folder`, for kernels of the
// same names and generation on a processor of the same make (`processor`): in `folder`/kernels, one
// file each. Stores nothing if either is empty (unknown). Unreadable files are measured again;
// failures to write are ignored.
[[nodiscard]] std::vector<KernelTimes> kept_times(std::span<const IntegerKernels> kernels,
                                                  const std::string& processor,
                                                  const std::filesystem::path& folder,
                                                  const Stopwatch& stopwatch);

// Makes products use the fastest kernels, by times stored in `folder` (of weight blocks) or
// measured now. The first call of a process counts; call it before any kernel runs, and after
// choose_instruction_sets(), which limits the choice. Thread-safe.
void choose_integer_kernels(const std::filesystem::path& folder);

// Returns the kernels for products of `tokens` in `format`: chosen, else the first
// integer_kernels().
[[nodiscard]] const IntegerKernels& chosen_kernels(model::WeightFormat format, std::int64_t tokens);

// Returns the choice, for results: "avx512-vnni" or "avx512-vnni; avx2 for q4_k of few tokens, q6_k
// of few tokens"; empty if there was no choice.
[[nodiscard]] std::string kernel_choice();
// The same for `times` of kernels of these names.
[[nodiscard]] std::string choice_text(std::span<const KernelTimes> times,
                                      std::span<const IntegerKernels> kernels);

}  // namespace tandem::exec
