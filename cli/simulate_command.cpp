// tandem simulate: predicts the times of a plan.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>
#include <ostream>
#include <utility>

#include "advice/prediction.hpp"
#include "advice/prompt_chunks.hpp"
#include "cli/files/files.hpp"
#include "cli/files/plan_argument.hpp"
#include "cli/files/replica_folder.hpp"
#include "cli/flags/commands.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/moved_plan.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/outcome.hpp"
#include "cli/flags/predicted_workload.hpp"
#include "cli/flags/shown.hpp"
#include "cli/flags/workload_flags.hpp"
#include "cli/rate_answers.hpp"
#include "cli/replica_answers.hpp"
#include "cli/version.hpp"
#include "cli/views/result_tables.hpp"
#include "exec/kernels/kernels_here.hpp"
#include "model/base/error.hpp"
#include "model/cluster/variation.hpp"
#include "model/predict/bottleneck.hpp"
#include "model/report/result.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/plan/outdated_profiles.hpp"
#include "planner/search/extrapolation.hpp"
#include "planner/serving/cache_places.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/serving_plan.hpp"

namespace tandem::cli {
namespace {

using model::Result;
using planner::Plan;
using study::EvaluatorKind;

study::Repetitions read_repetitions(const Options& options, const Plan& plan,
                                    EvaluatorKind evaluator) {
  constexpr std::int64_t kMaxSeed = std::int64_t{1} << 62;
  const std::string varies = variation(plan.cluster);
  if (evaluator == EvaluatorKind::analytic) model::check_analytic(plan.cluster);
  if (!model::varies_by_chance(plan.cluster))
    options.refuse({"seed", "repetitions"}, "on platform '" + plan.cluster.name() +
                                                "', where nothing is left to chance (no "
                                                "tandem:jitter or tandem:loss on a link)");
  return {.varies = !varies.empty(),
          .seed = static_cast<std::uint64_t>(options.integer_or("seed", 1, 0, kMaxSeed)),
          .count = options.integer_or("repetitions", 1, 1, 100000)};
}

// Returns the requests of a schedule, of other flags or of the plan's file at `plan_path`; nothing
// for one request. Throws Usage for flags that contradict each other, Error for what the plan
// cannot serve.
std::optional<study::ServedWorkload> served_by(const Options& options,
                                               const planner::PlanFile& file,
                                               const std::string& plan_path) {
  const Plan& plan = file.plan;
  const std::optional<std::string> path = options.text("schedule");
  if (!path) return predicted_workload(options, file, plan_path);
  options.refuse({"workload", "samples", "policy", "chunk", "in-flight", "prefix-cache",
                  "tokenizer", "raw-prompt"},
                 "with '--schedule', which has the requests and their steps");
  const Result run = model::parse_result_json(read_file(*path), *path);
  const std::string expected = planner::plan_sha256(plan);
  if (run.plan.sha256 != expected) {
    throw Error(*path + ": of plan " + run.plan.sha256.substr(0, 16) + ", expected " +
                expected.substr(0, 16) + "; give the result of a run of this plan");
  }
  if (run.origin == model::ResultOrigin::predicted) {
    throw Error(*path +
                ": field 'kind' is \"predicted\", expected \"measured\" or \"replayed\"; give a "
                "result of `tandem run --workload`");
  }
  if (run.schedule.empty()) {
    throw Error(*path +
                ": field 'schedule' is null, expected the steps of a run; give a result of "
                "`tandem run --workload`");
  }
  study::ServedWorkload served{.requests = planner::requests_of(run)};
  served.schedule = planner::replayed_steps(run.schedule, served.requests, plan.model, *path);
  planner::check_schedule(served.schedule, planner::serving_capacity(plan, 0), *path);
  planner::check_places(plan, served.schedule, *path);
  served.weights_sha256 = run.weights_sha256;
  return served;
}

// A line on the terminal of which step is evaluated, while that takes long.
class StepLine {
 public:
  void operator()(std::int32_t step, std::int32_t steps) {
    const Clock::time_point now = Clock::now();
    if (now - last_ <= std::chrono::milliseconds(500)) return;
    last_ = now;
    std::cerr << "\rstep " << step + 1 << " of " << steps << (step + 1 == steps ? "\n" : "")
              << std::flush;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
};

// The spread over the repetitions, if there were any.
void print_repetitions(const Result& result, std::ostream& out) {
  bool first = true;
  for (const auto& [name, text] : result.environment) {
    if (name.rfind("repetitions: ", 0) != 0) continue;
    if (first) {
      out << "\nover " << result.environment.at("repetitions") << " repetitions from seed "
          << result.environment.at("seed") << "\n";
    }
    first = false;
    out << "  " << name.substr(13) << "  " << text << '\n';
  }
}

void print_result(const Plan& plan, const Result& result, const model::Bottleneck& bottleneck,
                  std::int64_t chunk, std::ostream& out) {
  out << result.plan.model << " on " << result.plan.platform << ", strategy "
      << result.plan.strategy << ", " << to_text(plan.workload)
      << (chunk > 0 ? " in chunks of " + std::to_string(chunk) : "") << ", " << result.evaluator
      << "\n\n";
  print_times(result, out);
  out << '\n';
  print_devices(result, out);
  print_repetitions(result, out);
  if (!variation(plan.cluster).empty()) out << "\nwithout what varies:";
  const bool generates = plan.workload.new_tokens > 0;
  out << (generates ? "\nwhat the first token waits for  " : "\nwhat the pass waits for         ")
      << to_text(bottleneck.prompt) << '\n';
  if (!bottleneck.token.empty())
    out << "what a new token waits for      " << to_text(bottleneck.token) << '\n';
}

void print_served(const study::ServedWorkload& served, const Result& result, std::ostream& out) {
  out << result.plan.model << " on " << result.plan.platform << ", strategy "
      << result.plan.strategy << ", "
      << (served.policy != nullptr ? to_text(served) : "the steps of a run") << ", "
      << result.evaluator << "\n\n";
  print_requests(result, out);
  out << '\n';
  print_devices(result, out);
  print_repetitions(result, out);
}

}  // namespace

int simulate_command(const Arguments& arguments, std::ostream& out) {
  Syntax syntax{
      .command = "simulate",
      .summary =
          "Predicts the times, memory and traffic of a plan, and what they wait for; of a folder\n"
          "of replicas, of all of them together.",
      .positionals = {"plan.json"},
      .flags = {{"out", "FILE", "write the result file; - prints it instead of the table"},
                {"trace", "FILE", "write the timeline, for ui.perfetto.dev"},
                {"evaluator", "E",
                 "simgrid (links are shared), or analytic (nothing contends) [simgrid]"},
                {"full", "",
                 "evaluate every step, also those that can be shown to repeat the one before"},
                {"seed", "S", "of the links' jitter and loss [1]"},
                {"repetitions", "R", "simulate with R seeds, from S on, and print the spread [1]"},
                {"json", "", "print the result as JSON"},
                {"schedule", "FILE", "replay the steps of a run of many requests, of its result"},
                {"quiet", "", "print no table and no progress"}}};
  for (const std::vector<Flag>& more :
       {moved_plan_flags(), predicted_workload_flags(), rate_flags()})
    syntax.flags.insert(syntax.flags.end() - 2, more.begin(), more.end());
  Options options(syntax, arguments);
  const Shown show = shown(options);
  if (is_folder(options.positional(0)))
    return simulate_replicas(options, options.positional(0), show, out);
  const EvaluatorKind evaluator =
      options.choice_or("evaluator", "simgrid", {"simgrid", "analytic"}) == "analytic"
          ? EvaluatorKind::analytic
          : EvaluatorKind::simgrid;
  const std::string& path = options.positional(0);
  const std::optional<std::string> trace_path = options.text("trace");
  const bool rates = options.has("goal");
  if (!rates) options.refuse({"figure"}, "without '--goal', whose rates it shows");
  if (!rates && !show.file && !trace_path)
    options.refuse({"quiet"}, "but to leave no result; give '--out' or '--trace'");
  if (options.has("platform"))
    options.refuse({"schedule"},
                   "with '--platform', as the steps are of a run of the plan as it is");
  const planner::PlanFile planned = plan_argument(path);
  const planner::PlanFile file = moved_plan(options, planned);
  const Plan& plan = file.plan;
  FileRoles files;
  files.reads("argument plan.json", path);
  if (file.service && !planned_file(*file.service, path).empty())
    files.reads("the plan's workload", planned_file(*file.service, path));
  if (show.file) files.writes("flag '--out'", *show.file);
  files.writes(options, "trace");
  for (const char* const flag : {"workload", "schedule"}) files.reads(options, flag);
  if (const auto platform = options.text("platform"))
    files.reads("flag '--platform'", find_platform(*platform));
  if (const auto stem = options.text("figure")) {
    for (const char* const end : {".csv", ".png", ".svg"})
      files.writes("flag '--figure'", *stem + end);
  }
  files.check();
  if (rates) return simulate_rates(options, file, path, evaluator, show, out);
  const study::Repetitions repetitions = read_repetitions(options, plan, evaluator);
  const std::optional<study::ServedWorkload> served = served_by(options, file, path);
  if (served) {
    options.accept_idle({"full"}, "with many requests, whose steps are all evaluated");
  }
  study::PredictionOptions how{.evaluator = evaluator,
                               .timeline = trace_path.has_value(),
                               .every_step = !served && options.has("full"),
                               .repetitions = repetitions};
  options.settle();
  study::check_memory(plan, served ? &*served : nullptr, how.timeline);
  if (const std::string guess = planner::extrapolation_remark(plan); !guess.empty() && !show.quiet)
    std::cerr << "tandem simulate: " << guess << '\n';
  const std::string outdated = planner::outdated_remark(plan, exec::kernels_here());
  if (!outdated.empty() && !show.quiet) std::cerr << "tandem simulate: " << outdated << '\n';
  if (!show.quiet && ::isatty(STDERR_FILENO) == 1) how.on_step = StepLine();

  study::Prediction prediction =
      served ? study::predict_served(plan, *served, how) : study::predict(plan, how);
  Result& result = prediction.result;
  result.environment["tandem"] = version();
  if (options.has("platform")) result.environment["planned_for"] = planned.plan.cluster.name();
  if (!outdated.empty()) result.environment["outdated_profiles"] = outdated;
  if (trace_path) {
    result.trace = path_from(*trace_path, show.file);
    model::set_communication(result, prediction.trace);
    write_file(*trace_path, to_perfetto_json(prediction.trace, "predicted"));
  }
  deliver(show, to_json(result), out);
  if (show.json) {
    out << to_json(result);
  } else if (show.table()) {
    const bool one = served && study::is_one_in_chunks(*served);
    if (served && !one) {
      print_served(*served, result, out);
    } else {
      print_result(plan, result, study::bottleneck_of(plan, evaluator, one ? &*served : nullptr),
                   one ? served->chunk : 0, out);
    }
    if (evaluator == EvaluatorKind::simgrid) print_network(result, out);
  }
  return 0;
}

}  // namespace tandem::cli
