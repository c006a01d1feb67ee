// tandem simulate: predicts the times of a plan.

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <ostream>

#include "cli/bottleneck.hpp"
#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/options.hpp"
#include "cli/report.hpp"
#include "cli/table.hpp"
#include "cli/version.hpp"
#include "model/analytic.hpp"
#include "model/quantity_text.hpp"
#include "model/result.hpp"
#include "planner/lowering.hpp"
#include "sim/replay.hpp"

namespace tandem::cli {
namespace {

using model::Result;
using planner::Plan;

// The steps, with a line on the terminal while they take long.
class WithProgress : public model::Steps {
 public:
  WithProgress(model::Steps& steps, bool shown) : steps_(steps), shown_(shown) {}
  [[nodiscard]] std::int32_t count() const override { return steps_.count(); }
  const model::TaskGraph& graph(std::int32_t i) override {
    const Clock::time_point now = Clock::now();
    if (shown_ && now - last_ > std::chrono::milliseconds(500)) {
      last_ = now;
      std::cerr << "\rstep " << i + 1 << " of " << count() << (i + 1 == count() ? "\n" : "")
                << std::flush;
    }
    return steps_.graph(i);
  }
  [[nodiscard]] bool any_order() const override { return steps_.any_order(); }

 private:
  using Clock = std::chrono::steady_clock;
  model::Steps& steps_;
  bool shown_;
  Clock::time_point last_ = Clock::now();
};

// With `extended` as few steps as show what the others are, and no spans.
void evaluate(const Plan& plan, const std::string& evaluator, model::Steps& steps,
              model::RunRecorder& recorder, bool extended) {
  const auto analytic = extended ? model::extend_analytic : model::evaluate_analytic;
  const auto simgrid = extended ? sim::replay_extended : sim::replay;
  (evaluator == "analytic" ? analytic : simgrid)(plan.cluster, plan.cost_model(), steps, recorder);
}

// The critical path of the first two tokens, by the same evaluator.
Bottleneck bottleneck_of(const Plan& plan, const std::string& evaluator) {
  planner::Workload workload = plan.workload;
  workload.new_tokens = std::min<std::int64_t>(2, workload.new_tokens);
  planner::GenerationSteps steps(plan, workload);
  model::RunRecorder recorder(plan.cluster, plan.master, true);
  evaluate(plan, evaluator, steps, recorder, false);
  return find_bottleneck(plan, recorder.trace());
}

Result result_of(const Plan& plan, const std::string& evaluator,
                 const model::RunRecorder& recorder) {
  Result result;
  result.kind = "predicted";
  result.evaluator = evaluator;
  result.plan = {.sha256 = planner::plan_sha256(plan),
                 .strategy = plan.strategy,
                 .model = plan.model.name,
                 .platform = plan.cluster.name()};
  result.environment["tandem"] = version();
  if (evaluator == "simgrid") result.environment.merge(sim::network_settings());
  for (std::size_t i = 0; i < plan.profiles.size(); ++i)
    result.environment["profile of " + plan.cluster.devices()[i].name] = plan.profiles[i].source;
  fill_result(recorder, result);
  return result;
}

void print_result(const Plan& plan, const Result& result, const Bottleneck& bottleneck,
                  std::ostream& out) {
  out << result.plan.model << " on " << result.plan.platform << ", strategy "
      << result.plan.strategy << ", " << plan.workload.prompt_tokens << " prompt and "
      << plan.workload.new_tokens << " new tokens, " << result.evaluator << "\n\n";
  print_times(result, out);
  out << '\n';
  print_devices(result, out);
  out << "\nwhat the first token waits for  " << to_text(bottleneck.prompt) << '\n';
  if (!bottleneck.token.empty())
    out << "what a new token waits for      " << to_text(bottleneck.token) << '\n';
}

}  // namespace

int simulate_command(const Arguments& arguments, std::ostream& out) {
  const Options options(
      {.command = "simulate",
       .summary = "Predicts the times, memory and traffic of a plan, and what they wait for.",
       .positionals = {"plan.json"},
       .flags = {{"out", "FILE", "write the result file"},
                 {"trace", "FILE", "write the timeline, for ui.perfetto.dev"},
                 {"evaluator", "E",
                  "simgrid (links are shared), or analytic (nothing contends) [simgrid]"},
                 {"full", "", "evaluate every step, also those that can be shown to go on alike"},
                 {"json", "", "print the result as JSON"},
                 {"quiet", "", "print no table and no progress"}}},
      arguments);
  if (options.has("json") && options.has("quiet"))
    throw Usage("flags '--json' and '--quiet' contradict each other; give one");
  const std::string evaluator = options.choice_or("evaluator", "simgrid", {"simgrid", "analytic"});
  const std::string& path = options.positional(0);
  const std::optional<std::string> result_path = options.text("out");
  const std::optional<std::string> trace_path = options.text("trace");
  const Plan plan = planner::parse_plan_json(read_file(path), path);
  if (result_path) check_writable(*result_path);
  if (trace_path) check_writable(*trace_path);

  planner::GenerationSteps generation(plan);
  WithProgress steps(generation, !options.has("quiet") && ::isatty(STDERR_FILENO) == 1);
  model::RunRecorder recorder(plan.cluster, plan.master, trace_path.has_value());
  for (model::DeviceIndex i = 0; i < plan.cluster.size(); ++i)
    recorder.set_peak_memory(i, plan.devices[static_cast<std::size_t>(i)].memory);
  const bool every_step = trace_path || options.has("full");
  evaluate(plan, evaluator, steps, recorder, !every_step);
  Result result = result_of(plan, evaluator, recorder);

  if (trace_path) {
    result.trace = trace_reference(*trace_path, result_path);
    write_file(*trace_path, to_perfetto_json(recorder.trace(), "predicted"));
  }
  if (result_path) write_file(*result_path, to_json(result));
  if (options.has("json")) {
    out << to_json(result);
  } else if (!options.has("quiet")) {
    print_result(plan, result, bottleneck_of(plan, evaluator), out);
    if (evaluator == "simgrid") print_network(result, out);
  }
  return 0;
}

}  // namespace tandem::cli
