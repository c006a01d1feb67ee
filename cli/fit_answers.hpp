#pragma once

// The answers of `tandem plan --fit`: the last point that fits, whose plan is then searched for as
// usual.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "advice/prompt_chunks.hpp"
#include "cli/flags/fit_flags.hpp"
#include "cli/flags/options.hpp"
#include "model/transformer/transformer.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/search.hpp"

namespace tandem::cli {

// What the flags other than `--fit` ask.
struct FitAsked {
  FitGoal goal = FitGoal::context;
  planner::Request request;
  std::string model_name{};  // as `--model` names it
  bool any_strategy = true;
  std::vector<model::WeightFormats> formats{};  // of `--dtype`, one or none
  planner::SearchEffort::Limits limits{};       // of everything
  study::PromptReading reading{};
};

struct Fitted {
  FitAsked found;  // the same at the point that was found; limits: what is left of them
  // A plan there, not the fastest; absent: nothing fits.
  std::optional<planner::Plan> plan{};
  std::int64_t chunk = 0;    // of its prompt; 0: whole
  bool interrupted = false;  // the plan is to be used as it is
  std::int64_t checks = 0;
  std::string text{};             // sentences; why nothing fits without a plan
  nlohmann::ordered_json json{};  // the same as the field `fit` of `--json`
};

// Finds the last point that fits. Draws a line of progress on a terminal; Ctrl-C takes the best so
// far. At most half of the limits is spent. Throws Usage as context_range does, and Error if it is
// interrupted before anything was found to fit.
[[nodiscard]] Fitted find_fit(const Options& options, FitAsked asked);

// A model of 'tandem model list' for which flags are read before `--fit model` has found one.
[[nodiscard]] std::string stand_in_model();

// Describes the device of `plan` with the least free memory, in one line: what of it is in use, and
// for what.
[[nodiscard]] std::string scarcest_memory(const planner::Plan& plan);

}  // namespace tandem::cli
