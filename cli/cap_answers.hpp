#pragma once

// What shares of devices (tandem:share, --share) cost, for `tandem plan`.

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "advice/prompt_chunks.hpp"
#include "cli/flags/options.hpp"
#include "model/predict/device_share.hpp"
#include "planner/partition/search_effort.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/search/search.hpp"
#include "sim/platform/platform.hpp"

namespace tandem::cli {

// The objective's time of a plan, and the best known without the shares of its devices.
struct CapCost {
  std::map<std::string, model::DeviceShare> shares{};  // of the plan's devices
  std::string master{};
  std::map<std::string, int> threads{};  // of profiles within the shares; 0: not stated
  double seconds = 0.0;
  double uncapped_s = 0.0;
};

// How the time of a plan and of the best one without shares is found.
struct CapSearch {
  planner::SearchEffort::Limits limits{};
  bool any = false;  // a search of devices, too, or of all strategies
  study::PromptReading reading{};
  std::int64_t chunk = 0;  // of the plan's prompt; 0: whole
};

// Returns those of `shares` that are of devices of `plan`.
[[nodiscard]] std::map<std::string, model::DeviceShare> shares_of(
    const planner::Plan& plan, const std::map<std::string, model::DeviceShare>& shares);

// Returns `limits` without the fifth of the time, or of the evaluations, that cap_cost() takes.
[[nodiscard]] planner::SearchEffort::Limits without_cap_cost(planner::SearchEffort::Limits limits);

// Returns what the shares of `file` cost: its plan's time beside the less of that of the same plan
// on whole devices, and of the plan that a search finds for these. `request` is the file's. The
// search has a quarter of `limits`.
[[nodiscard]] CapCost cap_cost(const Options& options, const sim::Platform& scenario,
                               const planner::Request& request, const planner::PlanFile& file,
                               const CapSearch& search);

// "The cap on laptop costs 12%: 4.1 s instead of 3.7 s.", and what `tandem run` does about it.
[[nodiscard]] std::string cap_text(const CapCost& cost);
// The same as the field `caps` of `--json`.
[[nodiscard]] nlohmann::ordered_json cap_json(const CapCost& cost);

// One line on the shares of the devices of `cluster`, for plans that do not fit; empty without.
[[nodiscard]] std::string cap_remark(const model::Cluster& cluster,
                                     const std::map<std::string, model::DeviceShare>& shares);

}  // namespace tandem::cli
