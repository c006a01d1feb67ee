// tandem whatif: which one change of a plan helps most, free or bought.

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "advice/free/fixed_plan.hpp"
#include "advice/free/free_changes.hpp"
#include "advice/prompt_chunks.hpp"
#include "advice/whatif.hpp"
#include "cli/files/plan_argument.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/loss.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/outcome.hpp"
#include "cli/flags/predicted_workload.hpp"
#include "cli/flags/shown.hpp"
#include "cli/views/free_view.hpp"
#include "cli/views/progress_view.hpp"
#include "exec/kernels/kernels_here.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/plan/outdated_profiles.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;
using study::WhatIf;
using study::WhatIfChange;

// Less than this is no help worth a line.
constexpr double kWorthSaying = 0.005;
// Of the free changes, which search what flags leave open, and of purchases, which do so, too.
constexpr double kFreeSeconds = 30.0;
constexpr double kBoughtSeconds = 10.0;
constexpr double kMostSeconds = 1e6;

using ServedRequests = std::optional<study::ServedWorkload>;

// What was asked and found.
struct Answered {
  const planner::Plan& plan;
  const ServedRequests& served;
  const WhatIf& bought;
  const study::FreeChanges& free;
  [[nodiscard]] FreeWords words() const {
    return {.objective = planner::Objective::request,
            .many = served && !study::is_one_in_chunks(*served),
            .command = "the command that planned"};
  }
};

// A row of the table of all changes.
struct Row {
  std::string change;
  std::optional<double> seconds;
  std::string obstacle;
  bool at_least = false;  // a search was cut
  double gain = 0.0;
};

// Free changes and purchases, fastest first, impossible ones last.
std::vector<Row> rows_of(const Answered& answered) {
  std::vector<Row> rows;
  for (const study::FreeChange& change : answered.free.tried)
    rows.push_back({change.what, change.seconds, change.obstacle, change.at_least});
  for (const WhatIfChange& change : answered.bought.changes)
    rows.push_back({to_text(change), change.request_s, change.obstacle, change.at_least});
  for (Row& row : rows) {
    if (row.seconds) row.gain = 1.0 - *row.seconds / answered.bought.unchanged_s;
  }
  std::ranges::stable_sort(rows, [](const Row& a, const Row& b) {
    if (a.seconds && b.seconds) return *a.seconds < *b.seconds;
    return a.seconds.has_value() && !b.seconds.has_value();
  });
  return rows;
}

Json to_json(const Answered& answered) {
  const auto& [plan, served, bought, free] = answered;
  Json json{{"requests", served ? served->requests.size() : 1},
            {"policy", served ? Json(served->policy->name) : Json()},
            {"chunk", served && served->chunk > 0 ? Json(served->chunk) : Json()},
            {"planned_s", bought.planned_s},
            {"unchanged_s", bought.unchanged_s},
            {"free_changes", free_json(free, answered.words())},
            {"changes", Json::array()}};
  for (const Row& row : rows_of(answered)) {
    const bool possible = row.seconds.has_value();
    json["changes"].push_back({{"change", row.change},
                               {"request_s", possible ? Json(*row.seconds) : Json()},
                               {"gain_percent", possible ? Json(100.0 * row.gain) : Json()},
                               {"at_least", row.at_least},
                               {"obstacle", possible ? Json() : Json(row.obstacle)}});
  }
  return json;
}

std::string percent(double gain) { return model::fixed(100.0 * std::abs(gain), 1) + "%"; }

void print(const Answered& answered, std::ostream& out) {
  const auto& [plan, served, bought, free] = answered;
  out << plan.model.name << " on " << plan.cluster.name() << ", strategy " << plan.strategy << ", "
      << (served ? to_text(*served) : to_text(plan.workload)) << ": a request takes "
      << to_text(model::Seconds{bought.planned_s}) << (served ? " on average\n" : "\n");
  if (bought.unchanged_s < bought.planned_s * (1.0 - kWorthSaying))
    out << "planned anew, with shares by predicted time, "
        << to_text(model::Seconds{bought.unchanged_s}) << " without any change\n";
  print_free(free, answered.words(), out);
  const WhatIfChange* best = bought.changes.empty() ? nullptr : &bought.changes.front();
  if (best == nullptr || !best->request_s || bought.gain(*best) < kWorthSaying) {
    out << "nothing to buy helps\n";
  } else {
    out << "most helps to buy: " << to_text(*best) << ", "
        << to_text(model::Seconds{*best->request_s}) << ", " << percent(bought.gain(*best))
        << " less\n";
  }
  out << '\n';
  model::Table table({"one change", "request", "gain"});
  std::vector<Row> impossible;
  for (const Row& row : rows_of(answered)) {
    if (!row.seconds) {
      impossible.push_back(row);
      continue;
    }
    const bool changes = std::abs(row.gain) >= 0.0005;
    table.add({row.change, to_text(model::Seconds{*row.seconds}),
               changes ? (row.gain > 0.0 ? "" : "-") + percent(row.gain) +
                             (row.at_least ? " or more" : "")
                       : "-"});
  }
  table.print(out);
  if (impossible.empty()) return;
  out << "\nnot possible\n";
  for (const Row& row : impossible) out << "  " << row.change << ": " << row.obstacle << '\n';
}

}  // namespace

int whatif_command(const Arguments& arguments, std::ostream& out) {
  Syntax syntax{
      .command = "whatif",
      .summary =
          "Predicts a request of a plan again and again, each time with one thing changed and\n"
          "planned anew. First what costs nothing: other types of messages and cache, the LM head\n"
          "split, a device left out or alone, the prompt at another one; then what must be "
          "bought:\n"
          "a device twice, faster, with more memory or a faster disk, a link of more bandwidth or\n"
          "less latency. Of a plan for many requests, their mean time.",
      .positionals = {"plan.json"},
      .flags = {
          {"evaluator", "E",
           "simgrid (links are shared), or analytic (nothing contends) [simgrid]"},
          {"seconds", "S",
           "seconds in which the purchases that help most are searched as 'tandem plan' "
           "searches, chunks and steps in flight included; the others gain what is printed or "
           "more; 0: all to the end [10]"},
          {"json", "", "print the answer as JSON"},
          {"quiet", "", "no progress and no remarks"}}};
  std::vector<Flag> more = predicted_workload_flags();
  std::ranges::move(type_bound_flags(), std::back_inserter(more));
  syntax.flags.insert(syntax.flags.end() - 2, more.begin(), more.end());
  Options options(syntax, arguments);
  const study::EvaluatorKind evaluator =
      options.choice_or("evaluator", "simgrid", {"simgrid", "analytic"}) == "analytic"
          ? study::EvaluatorKind::analytic
          : study::EvaluatorKind::simgrid;
  const std::string& path = options.positional(0);
  const planner::PlanFile file = plan_argument(path);
  const planner::Plan& plan = file.plan;
  const ServedRequests served = predicted_workload(options, file, path);
  const TypeBound bound = type_bound_of(options, file);
  const double seconds = options.number_or("seconds", kBoughtSeconds, 0.0, kMostSeconds);
  planner::SearchEffort::Limits limits;
  if (seconds > 0.0) limits.seconds = seconds;
  const bool quiet = options.has("quiet");
  const bool json = options.has("json");
  options.settle();
  const std::string outdated = planner::outdated_remark(plan, exec::kernels_here());
  if (!outdated.empty() && !quiet) std::cerr << "tandem whatif: " << outdated << '\n';
  for (const std::string& remark : bound.remarks) {
    if (!quiet) std::cerr << "tandem whatif: " << remark << '\n';
  }
  ProgressLine progress("changes", !quiet && ::isatty(STDERR_FILENO) == 1);
  const study::ServedWorkload* const requests = served ? &*served : nullptr;
  WhatIf bought = study::what_if(plan, evaluator, progress, requests, limits);
  study::FreeChanges free = study::free_changes(
      {.ask = study::fixed_plan(plan, requests, study::planning_evaluator(evaluator)),
       .plan = &plan,
       .planned_s = bought.planned_s,
       .anew = true,
       .of_file = true,
       .prices = bound.prices,
       .most_loss = bound.most,
       .clock = study::request_clock(evaluator),
       .limits = {.seconds = kFreeSeconds}});
  // They search differently what the plan leaves open; gains are against the faster of both.
  const bool base_is_faster = bought.unchanged_s < free.unchanged_s;
  for (study::FreeChange& change : free.tried) change.at_least |= base_is_faster;
  bought.compare_with(free.unchanged_s);
  free.unchanged_s = bought.unchanged_s;
  const Answered answered{.plan = plan, .served = served, .bought = bought, .free = free};
  if (json) {
    out << to_json(answered).dump(2) << '\n';
  } else {
    print(answered, out);
  }
  return 0;
}

}  // namespace tandem::cli
