// tandem simulate: predicts the times of a plan.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>
#include <ostream>
#include <system_error>
#include <utility>

#include "cli/commands.hpp"
#include "cli/files/files.hpp"
#include "cli/files/scenarios.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/outcome.hpp"
#include "cli/flags/shown.hpp"
#include "cli/flags/workload.hpp"
#include "cli/terminal/result_tables.hpp"
#include "cli/version.hpp"
#include "exec/gguf/gguf_file.hpp"
#include "exec/kernels/kernels_here.hpp"
#include "model/bottleneck.hpp"
#include "model/error.hpp"
#include "model/result.hpp"
#include "model/variation.hpp"
#include "planner/extrapolation.hpp"
#include "planner/outdated_profiles.hpp"
#include "planner/serving/request_results.hpp"
#include "planner/serving/serving_plan.hpp"
#include "study/prediction.hpp"

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

// The model folder or GGUF file whose tokenizer --tokenizer asks for; empty without it. Throws
// Error for what is none: of such a one every byte would count as a token.
std::filesystem::path tokenizer_source(const Options& options) {
  const std::optional<std::string> name = options.text("tokenizer");
  if (!name) return {};
  std::filesystem::path source = find_weights(*name);
  const bool file = exec::is_gguf(source);
  for (const char* const part :
       {"config.json", "tokenizer.model", "tokenizer.json", "vocab.json", "vocab.txt"}) {
    std::error_code ignored;
    if (file || std::filesystem::exists(source / part, ignored)) return source;
  }
  throw Error(
      "flag '--tokenizer': " + *name +
      ": neither a model folder nor a GGUF file, expected one with the tokenizer that is to "
      "count the prompts' tokens; check the path");
}

// What --workload or --schedule say; nothing without either. Throws Usage for both, Error for what
// the plan cannot serve.
std::optional<study::ServedWorkload> served_by(const Options& options, const Plan& plan) {
  const std::optional<std::string> path = options.text("schedule");
  if (!path) {
    std::optional<Served> served = served_workload(
        options, plan.model, tokenizer_source(options),
        "give prompt_tokens, or '--tokenizer' a model folder or GGUF file", [&] {
          return planner::InferenceRequest{.id = {},
                                           .prompt_tokens = plan.workload.prompt_tokens,
                                           .new_tokens = plan.workload.new_tokens};
        });
    if (!served) return std::nullopt;
    if (options.has("workload") &&
        std::ranges::none_of(served->requests, [](const auto& r) { return r.prompt.has_value(); }))
      options.accept_idle({"tokenizer", "raw-prompt"}, "as no prompt of the workload is a text");
    find_chunk(*served, plan);
    return study::ServedWorkload{.requests = std::move(served->requests),
                                 .policy = served->policy,
                                 .chunk = served->chunk,
                                 .steps = served->steps,
                                 .schedule = {}};
  }
  options.refuse({"workload", "samples", "policy", "chunk", "in-flight", "tokenizer", "raw-prompt"},
                 "with '--schedule', which has the requests and their steps");
  const Result measured = model::parse_result_json(read_file(*path), *path);
  const std::string expected = planner::plan_sha256(plan);
  if (measured.plan.sha256 != expected) {
    throw Error(*path + ": of plan " + measured.plan.sha256.substr(0, 16) + ", expected " +
                expected.substr(0, 16) + "; give the result of a run of this plan");
  }
  if (measured.kind != "measured") {
    throw Error(*path + ": field 'kind' is \"" + measured.kind +
                "\", expected \"measured\"; give a result of `tandem run --workload`");
  }
  if (measured.schedule.empty()) {
    throw Error(*path +
                ": field 'schedule' is null, expected the steps of a run; give a result of "
                "`tandem run --workload`");
  }
  study::ServedWorkload served{.requests = planner::requests_of(measured)};
  served.schedule = planner::replayed_steps(measured.schedule, served.requests, plan.model, *path);
  planner::check_schedule(served.schedule, planner::serving_capacity(plan, 0), *path);
  served.weights_sha256 = measured.weights_sha256;
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
                  std::ostream& out) {
  out << result.plan.model << " on " << result.plan.platform << ", strategy "
      << result.plan.strategy << ", " << to_text(plan.workload) << ", " << result.evaluator
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
      << (served.policy != nullptr ? to_text(Served{.requests = served.requests,
                                                    .policy = served.policy,
                                                    .chunk = served.chunk,
                                                    .steps = served.steps})
                                   : std::string("the steps of a measured run"))
      << ", " << result.evaluator << "\n\n";
  print_requests(result, out);
  out << '\n';
  print_devices(result, out);
  print_repetitions(result, out);
}

}  // namespace

int simulate_command(const Arguments& arguments, std::ostream& out) {
  Syntax syntax{
      .command = "simulate",
      .summary = "Predicts the times, memory and traffic of a plan, and what they wait for.",
      .positionals = {"plan.json"},
      .flags = {
          {"out", "FILE", "write the result file; - prints it instead of the table"},
          {"trace", "FILE", "write the timeline, for ui.perfetto.dev"},
          {"evaluator", "E",
           "simgrid (links are shared), or analytic (nothing contends) [simgrid]"},
          {"full", "", "evaluate every step, also those that can be shown to go on alike"},
          {"seed", "S", "of the links' jitter and loss [1]"},
          {"repetitions", "R", "simulate with R seeds, from S on, and print the spread [1]"},
          {"json", "", "print the result as JSON"},
          {"tokenizer", "DIR", "model folder or GGUF file, for a workload whose prompts are texts"},
          {"raw-prompt", "", "special tokens written in them (\"</s>\") are plain text"},
          {"schedule", "FILE", "replay the steps of a measured result of many requests"},
          {"quiet", "", "print no table and no progress"}}};
  const std::vector<Flag> more = workload_flags();
  syntax.flags.insert(syntax.flags.end() - 4, more.begin(), more.end());
  Options options(syntax, arguments);
  const Shown show = shown(options);
  const EvaluatorKind evaluator =
      options.choice_or("evaluator", "simgrid", {"simgrid", "analytic"}) == "analytic"
          ? EvaluatorKind::analytic
          : EvaluatorKind::simgrid;
  const std::string& path = options.positional(0);
  const std::optional<std::string> trace_path = options.text("trace");
  if (!show.file && !trace_path)
    options.refuse({"quiet"}, "but to leave no result; give '--out' or '--trace'");
  FileRoles files;
  files.reads("argument plan.json", path);
  if (show.file) files.writes("flag '--out'", *show.file);
  files.writes(options, "trace");
  for (const char* const flag : {"workload", "schedule"}) files.reads(options, flag);
  files.check();
  const Plan plan = planner::parse_plan_json(read_file(path), path);
  const study::Repetitions repetitions = read_repetitions(options, plan, evaluator);
  const std::optional<study::ServedWorkload> served = served_by(options, plan);
  if (served) {
    options.accept_idle({"full"}, "with many requests, whose steps are all evaluated");
  }
  if (!options.has("workload"))
    options.refuse({"tokenizer", "raw-prompt"}, "without '--workload', whose prompts they are for");
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
  if (!outdated.empty()) result.environment["outdated_profiles"] = outdated;
  if (trace_path) {
    result.trace = trace_reference(*trace_path, show.file);
    model::set_communication(result, prediction.trace);
    write_file(*trace_path, to_perfetto_json(prediction.trace, "predicted"));
  }
  deliver(show, to_json(result), out);
  if (show.json) {
    out << to_json(result);
  } else if (show.table()) {
    if (served) {
      print_served(*served, result, out);
    } else {
      print_result(plan, result, study::bottleneck_of(plan, evaluator), out);
    }
    if (evaluator == EvaluatorKind::simgrid) print_network(result, out);
  }
  return 0;
}

}  // namespace tandem::cli
