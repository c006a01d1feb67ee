#pragma once

// The flags of `tandem plan` that depend on the strategy.

#include <optional>
#include <string>
#include <string_view>

#include "cli/flags/options.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::cli {

// `--strategy` of a search for the best one.
inline constexpr std::string_view kAutoStrategy = "auto";

// What flags say of the strategy `chosen`, called `name`. Throws Usage for those without effect.
struct StrategyFlags {
  std::string groups{};  // empty: none
  bool galaxy_groups = false;
  std::optional<planner::DecodeMoves> moves{};  // nothing: the fastest
  std::string with_split{};                     // the strategy of `--sp tp`
  std::string sp{};
  bool gathers = false;
  std::string collective{};
  // What no flag gives.
  planner::OpenAxes open{};
  std::optional<std::int32_t> rounds = 1;  // nothing: the fastest number
  planner::TokenFfn token_ffn = planner::TokenFfn::owner;
};

[[nodiscard]] StrategyFlags strategy_flags(const Options& options, const planner::Strategy& chosen,
                                           const std::string& name);

// Throws Usage unless the plan has the stages that flags ask for: runs of layers with no other
// device's between them are one run, so few layers may give fewer rounds.
void check_stages(const Options& options, const planner::Plan& plan);
// Several steps in flight exclude weights that stream, and rounds. `any`: the strategy is to be
// chosen, too.
void check_in_flight(const Options& options, std::int64_t steps, const planner::Request& request,
                     bool any);

// Returns why plans of these flags read prompts whole; empty: they may read them in chunks.
// `bounded`: levels are chosen by their loss.
[[nodiscard]] std::string only_whole(const planner::Request& request, const StrategyFlags& flags,
                                     bool bounded);

}  // namespace tandem::cli
