#pragma once

// `tandem plan --fit`: what is to be found.

#include <cstdint>
#include <optional>
#include <string_view>

#include "cli/flags/options.hpp"
#include "model/transformer/transformer.hpp"
#include "planner/plan/workload.hpp"

namespace tandem::cli {

// What `--fit` finds for the rest of the question.
enum class FitGoal : std::uint8_t { context, model, devices, dtype };

[[nodiscard]] std::string_view to_string(FitGoal goal);

inline constexpr Flag kFitFlag{
    "fit", "WHAT",
    "instead of a plan for one point, finds the last that fits in memory: context (the longest "
    "prompt with the new tokens, or the most new tokens after --prompt-tokens), model (the largest "
    "of 'tandem model list'), devices (the fewest), dtype (the most precise); then plans it"};

// `--fit`. Throws Usage for flags that contradict it or have no effect with it: those of many
// requests, and those of what it finds.
[[nodiscard]] std::optional<FitGoal> fit_goal(const Options& options);

// The contexts that `--fit context` considers.
struct ContextRange {
  std::int64_t least = 0;  // prompt and new tokens
  std::int64_t most = 0;   // of the model
  std::int64_t fixed = 0;  // tokens of the part that does not grow
  bool prompt_grows = true;
  [[nodiscard]] planner::Workload lengths(std::int64_t context) const;
};

// Returns the contexts that begin with `lengths`, those that the flags state or by default: new
// tokens grow if the prompt is given, else the prompt does. Throws Usage for an encoder, whose
// passes have no new tokens, if both lengths are given, or if the given one leaves no room.
[[nodiscard]] ContextRange context_range(const Options& options, const planner::Workload& lengths,
                                         const model::Transformer& transformer);

}  // namespace tandem::cli
