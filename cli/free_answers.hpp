#pragma once

// The free changes of the plan that `tandem plan` found.

#include <optional>
#include <string>
#include <vector>

#include "advice/choice.hpp"
#include "advice/free/free_changes.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/workload_flags.hpp"
#include "model/report/result.hpp"
#include "planner/partition/search_effort.hpp"

namespace tandem::cli {

// What was asked, before it was answered.
struct AskedPlan {
  study::Question question;  // without an effort
  bool any = false;          // strategy
  bool fewest = false;       // devices
  bool searched = false;     // devices
  bool any_moves = false;    // of new tokens' keys and values
  bool chose_master = false;
  planner::SearchEffort::Limits limits{};         // of the whole command
  std::optional<double> spent_s{};                // of them, by the search for the plan
  std::optional<planner::FormatPrices> prices{};  // measured of the model
};

// Returns whether replicas are among the changes: of many requests, for their throughput.
[[nodiscard]] bool may_have_replicas(const AskedPlan& asked);

// Returns `limits` of the search, which leave a fifth of the time, with replicas two, to
// free_changes_of().
[[nodiscard]] planner::SearchEffort::Limits without_free_changes(
    planner::SearchEffort::Limits limits, bool replicas);

// Returns the free changes of `plan`, the answer to `asked`, whose prediction is `predicted`. After
// a search of devices they take what is left of the time, at least a tenth of it, or a
// quarter as many evaluations; else ten seconds. Ctrl-C ends them.
[[nodiscard]] study::FreeChanges free_changes_of(const Options& options, const AskedPlan& asked,
                                                 const planner::Plan& plan,
                                                 const std::optional<study::Choice>& choice,
                                                 const model::Result& predicted);

// Returns the names of the flags among `arguments`.
[[nodiscard]] std::vector<std::string> flag_names(const Arguments& arguments);

}  // namespace tandem::cli
