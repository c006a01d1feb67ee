// tandem whatif: which one change of a plan's devices or links helps most.

#include <unistd.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <vector>

#include "advice/whatif.hpp"
#include "cli/files/files.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/outcome.hpp"
#include "cli/flags/predicted_workload.hpp"
#include "cli/flags/shown.hpp"
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

using ServedRequests = std::optional<study::ServedWorkload>;

Json to_json(const WhatIf& answer, const ServedRequests& served) {
  Json json{{"requests", served ? served->requests.size() : 1},
            {"policy", served ? Json(served->policy->name) : Json()},
            {"chunk", served && served->chunk > 0 ? Json(served->chunk) : Json()},
            {"planned_s", answer.planned_s},
            {"unchanged_s", answer.unchanged_s},
            {"changes", Json::array()}};
  for (const WhatIfChange& change : answer.changes) {
    const bool possible = change.request_s.has_value();
    json["changes"].push_back(
        {{"change", to_text(change)},
         {"request_s", possible ? Json(*change.request_s) : Json()},
         {"gain_percent", possible ? Json(100.0 * answer.gain(change)) : Json()},
         {"obstacle", possible ? Json() : Json(change.obstacle)}});
  }
  return json;
}

std::string percent(double gain) { return model::fixed(100.0 * std::abs(gain), 1) + "%"; }

void print(const planner::Plan& plan, const WhatIf& answer, const ServedRequests& served,
           std::ostream& out) {
  out << plan.model.name << " on " << plan.cluster.name() << ", strategy " << plan.strategy << ", "
      << (served ? to_text(*served) : to_text(plan.workload)) << ": a request takes "
      << to_text(model::Seconds{answer.planned_s}) << (served ? " on average\n" : "\n");
  if (answer.unchanged_s < answer.planned_s * (1.0 - kWorthSaying))
    out << "planned anew, with shares by predicted time, "
        << to_text(model::Seconds{answer.unchanged_s}) << " without any change\n";
  const WhatIfChange* best = answer.changes.empty() ? nullptr : &answer.changes.front();
  if (best == nullptr || !best->request_s || answer.gain(*best) < kWorthSaying) {
    out << "no one change helps\n";
  } else {
    out << "most helps: " << to_text(*best) << ", " << to_text(model::Seconds{*best->request_s})
        << ", " << percent(answer.gain(*best)) << " less\n";
  }
  for (const WhatIfChange& change : answer.changes) {
    using Kind = WhatIfChange::Kind;
    const bool free =
        change.kind == Kind::alone || change.kind == Kind::drop || change.kind == Kind::master;
    if (!free || !change.request_s || answer.gain(change) < kWorthSaying) continue;
    out << "without buying anything: " << to_text(change) << ", "
        << to_text(model::Seconds{*change.request_s}) << ", " << percent(answer.gain(change))
        << " less\n";
    break;
  }
  out << '\n';
  model::Table table({"one change", "request", "gain"});
  std::vector<const WhatIfChange*> impossible;
  for (const WhatIfChange& change : answer.changes) {
    if (!change.request_s) {
      impossible.push_back(&change);
      continue;
    }
    const double gain = answer.gain(change);
    const bool changes = std::abs(gain) >= 0.0005;
    table.add({to_text(change), to_text(model::Seconds{*change.request_s}),
               changes ? (gain > 0.0 ? "" : "-") + percent(gain) : "-"});
  }
  table.print(out);
  if (impossible.empty()) return;
  out << "\nnot possible\n";
  for (const WhatIfChange* change : impossible)
    out << "  " << to_text(*change) << ": " << change->obstacle << '\n';
}

}  // namespace

int whatif_command(const Arguments& arguments, std::ostream& out) {
  Syntax syntax{
      .command = "whatif",
      .summary =
          "Predicts a request of a plan again and again, each time with one thing changed and\n"
          "planned anew: a device left out, alone, twice, faster, with more memory or a faster\n"
          "disk, the prompt given to another one, a link of more bandwidth or less latency. "
          "Prints\n"
          "what helps most first. Of a plan for many requests, their mean time.",
      .positionals = {"plan.json"},
      .flags = {{"evaluator", "E",
                 "simgrid (links are shared), or analytic (nothing contends) [simgrid]"},
                {"json", "", "print the answer as JSON"},
                {"quiet", "", "no progress and no remarks"}}};
  const std::vector<Flag> more = predicted_workload_flags();
  syntax.flags.insert(syntax.flags.end() - 2, more.begin(), more.end());
  Options options(syntax, arguments);
  const study::EvaluatorKind evaluator =
      options.choice_or("evaluator", "simgrid", {"simgrid", "analytic"}) == "analytic"
          ? study::EvaluatorKind::analytic
          : study::EvaluatorKind::simgrid;
  const std::string& path = options.positional(0);
  const planner::PlanFile file = planner::parse_plan_file(read_file(path), path);
  const planner::Plan& plan = file.plan;
  const ServedRequests served = predicted_workload(options, file, path);
  const bool quiet = options.has("quiet");
  const bool json = options.has("json");
  options.settle();
  const std::string outdated = planner::outdated_remark(plan, exec::kernels_here());
  if (!outdated.empty() && !quiet) std::cerr << "tandem whatif: " << outdated << '\n';
  ProgressLine progress("changes", !quiet && ::isatty(STDERR_FILENO) == 1);
  const WhatIf answer = study::what_if(plan, evaluator, progress, served ? &*served : nullptr);
  if (json) {
    out << to_json(answer, served).dump(2) << '\n';
  } else {
    print(plan, answer, served, out);
  }
  return 0;
}

}  // namespace tandem::cli
