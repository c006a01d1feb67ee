#pragma once

// The requests that a prediction of a plan is for.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "advice/prediction.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/workload_flags.hpp"
#include "planner/plan/file/plan_file.hpp"

namespace tandem::cli {

// planned_workload_flags(), and --tokenizer and --raw-prompt, by which prompts are counted.
[[nodiscard]] std::vector<Flag> predicted_workload_flags();

// Returns the requests that the flags ask for, or else those that the plan of `file`, which is at
// `path`, was made for; nothing for one request. Throws Usage, Error as served_workload does.
[[nodiscard]] std::optional<study::ServedWorkload> predicted_workload(
    const Options& options, const planner::PlanFile& file, const std::filesystem::path& path);

// Returns `served` as predictions take it.
[[nodiscard]] study::ServedWorkload for_prediction(const Served& served);

// "3 requests, continuous, prompts in chunks of 16"; of a policy, not of a schedule.
[[nodiscard]] std::string to_text(const study::ServedWorkload& served);

}  // namespace tandem::cli
