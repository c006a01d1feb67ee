#pragma once

// What `tandem plan` searches: one function for each question that its flags can ask.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "advice/choice.hpp"
#include "cli/flags/loss.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/workload_flags.hpp"
#include "cli/views/drop_view.hpp"
#include "model/transformer/weight_format.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/search/device_choice.hpp"
#include "planner/search/moves_choice.hpp"
#include "planner/search/search.hpp"
#include "planner/search/sp_choice.hpp"

namespace tandem::cli {

using Answer = std::variant<planner::Plan, planner::Infeasible>;

// How the search for the plan of one strategy went.
struct OneSearch {
  std::vector<planner::PlanDecision> decisions{};
  std::vector<std::string> cut{};  // axes that were not searched to the end
  std::int64_t evaluations = 0;
  double elapsed_s = 0.0;
  bool to_the_end = true;
  bool interrupted = false;
};

// Returns what a search that was cut left out.
[[nodiscard]] std::string cut_remark(const OneSearch& search);

// The plan of one strategy within `limits`, for `served`, whose chunk is set to the one found, or
// for one request that is read so; `served` is set to it if that is in chunks. `search`, if it is
// not null, is set to how it went. Progress and Ctrl-C as answer_of_any has them.
[[nodiscard]] Answer answer_to(const Options& options, const planner::Request& request,
                               const study::PromptReading& reading, std::optional<Served>& served,
                               const planner::SearchEffort::Limits& limits,
                               OneSearch* search = nullptr);

// Returns what led to the first contender, for its plan file: strategy, devices, and the axes of
// both.
[[nodiscard]] std::vector<planner::PlanDecision> decisions_of(const study::Choice& choice);

// The plan of the selected option, or why each has none.
[[nodiscard]] Answer answer_of(const planner::SpChoice& choice);
[[nodiscard]] Answer answer_of(const planner::DecodeChoice& choice);

// The plan whose levels and ratios, and types that are open, are chosen within `bounded`; `drop` is
// set to how.
[[nodiscard]] Answer answer_within(const planner::Request& request, MeasuredLoss& loss,
                                   const Bounded& bounded, std::optional<DropAnswer>& drop);

// Returns what the search for the best strategy is asked: for `served`, by any policy unless
// --policy names one, or for one request.
[[nodiscard]] study::Question question_of(const Options& options, const planner::Request& request,
                                          std::vector<model::WeightFormats> formats,
                                          const study::PromptReading& reading,
                                          const std::optional<Served>& served);

// The best plan of all strategies within `limits`; `choice` is set to their ranking, which
// study::replay_contenders may predict on SimGrid, policy and chunk of `served` to the best ones.
// Infeasible: why each strategy has none.
// One request is read as `reading` says; `served` is set to it if that is in chunks.
// Draws a line of progress on a terminal; Ctrl-C takes the best plan so far. Throws Error if there
// is none yet.
[[nodiscard]] Answer answer_of_any(const Options& options, const planner::Request& request,
                                   std::vector<model::WeightFormats> formats,
                                   const study::PromptReading& reading,
                                   std::optional<Served>& served,
                                   const planner::SearchEffort::Limits& limits,
                                   std::optional<study::Choice>& choice);

// The plan on the fewest devices; `few` is set to why not on fewer.
[[nodiscard]] Answer answer_on_fewest(const planner::Request& request,
                                      const planner::Planning& planning,
                                      std::optional<planner::FewestDevices>& few);

}  // namespace tandem::cli
