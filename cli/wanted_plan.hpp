#pragma once

// What `tandem plan` is asked: its flags and files, read.

#include <optional>
#include <string>
#include <vector>

#include "advice/prompt_chunks.hpp"
#include "cli/flags/fit_flags.hpp"
#include "cli/flags/loss.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/plan_flags.hpp"
#include "cli/flags/shown.hpp"
#include "cli/flags/strategy_flags.hpp"
#include "cli/flags/workload_flags.hpp"
#include "cli/replica_answers.hpp"
#include "model/transformer/weight_format.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/search/search.hpp"
#include "sim/platform/platform.hpp"

namespace tandem::cli {

struct WantedPlan {
  std::string model_name{};
  bool any = false;  // strategy
  StrategyFlags flags{};
  std::optional<FitGoal> goal{};
  std::optional<Bounded> bounded{};
  std::optional<PricedFormats> priced{};  // with a bound on what types lose
  planner::SearchEffort::Limits limits{};
  std::vector<model::WeightFormats> formats{};  // to choose from, with any strategy
  std::optional<Served> served{};               // absent: one request, as `reading` has it
  planner::Objective objective{};
  sim::Platform scenario;  // with shares; what the search has is the request's cluster
  WantedDevices devices{};
  planner::Request request;
  study::PromptReading reading{};
  std::optional<WantedReplicas> replicas{};
  std::string shortened{};  // what a model's context left of the lengths; empty: all
};

// Reads the flags and files of `tandem plan`. Prints what is assumed of the platform to std::cerr
// unless `show` is quiet. Throws Usage and Error.
[[nodiscard]] WantedPlan wanted_plan(const Options& options, const Shown& show);

}  // namespace tandem::cli
