#pragma once

// Which of the integer kernels that a processor can run takes the least time, by format and by
// whether tokens are few: cpuid tells what runs, not how fast. All give the same bits
// (integer_product.hpp), so it changes times only. Measured once a processor and kept; where there
// is but one kernel beside plain code, nothing is measured.

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

// What a small product took with each of the kernels, in their order.
struct KernelTimes {
  model::WeightFormat format = model::WeightFormat::q8_0;
  TokenCount tokens = TokenCount::few;
  std::vector<double> ns{};
  bool operator==(const KernelTimes&) const = default;
};

// The index of the kernel to use: the first, unless others take less by more than 5%, which noise
// is below; then the one that takes least. 0 if a time is none.
[[nodiscard]] std::size_t fastest(std::span<const double> ns);

// Calls what it is given, and returns how many nanoseconds that took.
using Stopwatch = std::function<double(const std::function<void()>& work)>;

// The least times of all formats' products of `kernels`, of 1 and of 64 tokens, some rounds in
// turns: some 30 ms of three equally fast ones on an AMD Zen 3.
[[nodiscard]] std::vector<KernelTimes> measure_kernels(std::span<const IntegerKernels> kernels,
                                                       const Stopwatch& stopwatch);

// measure_kernels(), or what it returned before in any process with `folder`, of kernels of the
// same names and generation on a processor of the same make (`processor`): in `folder`/kernels, a
// file each; nothing is kept if either is empty, not known. What is not to be read there is
// measured again, what is not to be written is not kept.
[[nodiscard]] std::vector<KernelTimes> kept_times(std::span<const IntegerKernels> kernels,
                                                  const std::string& processor,
                                                  const std::filesystem::path& folder,
                                                  const Stopwatch& stopwatch);

// From now on products use the fastest kernels, by times kept in `folder` (of weight blocks) or
// measured now. The first call of a process counts; to be called before any kernel runs, and after
// choose_instruction_sets(), whose kernels are chosen from. Thread-safe.
void choose_integer_kernels(const std::filesystem::path& folder);

// Those for products of `tokens` in `format`: the chosen ones, else the first of integer_kernels().
[[nodiscard]] const IntegerKernels& chosen_kernels(model::WeightFormat format, std::int64_t tokens);

// What was chosen, for the reader of a result: "avx512-vnni" or "avx512-vnni; avx2 for q4_k of
// few tokens, q6_k of few tokens"; empty if there was no choice.
[[nodiscard]] std::string kernel_choice();
// The same of `times` of kernels of these names.
[[nodiscard]] std::string choice_text(std::span<const KernelTimes> times,
                                      std::span<const IntegerKernels> kernels);

}  // namespace tandem::exec
