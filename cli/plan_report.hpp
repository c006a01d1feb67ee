#pragma once

// What `tandem plan` prints of the plan that it found.

#include <cstddef>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "advice/choice.hpp"
#include "advice/free/free_changes.hpp"
#include "cli/cap_answers.hpp"
#include "cli/fit_answers.hpp"
#include "cli/flags/loss.hpp"
#include "cli/flags/shown.hpp"
#include "cli/flags/workload_flags.hpp"
#include "cli/loss_answers.hpp"
#include "cli/views/drop_view.hpp"
#include "model/report/result.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/search/device_choice.hpp"
#include "planner/search/moves_choice.hpp"
#include "planner/search/sp_choice.hpp"

namespace tandem::cli {

// A plan and what was searched for it.
struct Found {
  const planner::PlanFile& file;
  const std::optional<Served>& served;
  const std::optional<study::Choice>& choice;
  const std::optional<planner::FewestDevices>& few;
  const std::optional<planner::SpChoice>& of_two;
  const std::optional<planner::DecodeChoice>& of_moves;
  const std::optional<DropAnswer>& drop;
  const std::optional<Bounded>& bounded;
  const std::optional<MeasuredLoss>& loss;
  const std::optional<LossAnswer>& types;
  const std::optional<Fitted>& fitted;
  const std::optional<CapCost>& cap;
  const std::optional<study::FreeChanges>& free;
  const model::Result& predicted;
  planner::Objective objective;
  std::size_t platform_devices;
  std::vector<std::string> given{};  // names of the command's flags
  [[nodiscard]] const planner::Plan& plan() const { return file.plan; }
};

// `--json`: what the tables show. `request` is what was asked, of the strategy that was asked for.
[[nodiscard]] nlohmann::ordered_json summary_of(const Found& found, const planner::Request& request,
                                                const Shown& show);

// Prints the answer in sentences, then its tables. `shortened`: why the request is not of the usual
// length; empty: it is, or was given.
void print_tables(const Found& found, const planner::Request& request, const Shown& show,
                  const std::string& shortened, std::ostream& out);

}  // namespace tandem::cli
