// tandem simulate: predicts the times of a plan.

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <map>
#include <numeric>
#include <ostream>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/flags/file_roles.hpp"
#include "cli/flags/options.hpp"
#include "cli/flags/outcome.hpp"
#include "cli/flags/shown.hpp"
#include "cli/report.hpp"
#include "cli/simulate_served.hpp"
#include "model/analytic.hpp"
#include "model/bottleneck.hpp"
#include "model/error.hpp"
#include "model/quantity_text.hpp"
#include "model/result.hpp"
#include "model/text_table.hpp"
#include "model/variation.hpp"
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
  [[nodiscard]] std::optional<std::vector<model::Channel>> channels() override {
    return steps_.channels();
  }

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

// Peak memory by device. A run with a timeline keeps a record of every task, which counts as its
// program's; so does the prediction with one.
std::vector<model::MemoryUse> memory_of(const Plan& plan, planner::GenerationSteps& steps,
                                        bool timeline) {
  std::vector<model::MemoryUse> memory;
  for (const planner::DevicePlan& device : plan.devices) memory.push_back(device.memory);
  const auto add = [&](std::int32_t step, std::int32_t times) {
    const std::vector<double> records = model::record_bytes(steps.graph(step), memory.size());
    for (std::size_t d = 0; d < memory.size(); ++d) memory[d].program += times * records[d];
  };
  if (timeline) add(0, 1);
  if (timeline && steps.count() > 1) add(1, steps.count() - 1);
  return memory;
}

// The critical path of the first two tokens, by the same evaluator, without what varies.
model::Bottleneck bottleneck_of(Plan plan, const std::string& evaluator) {
  plan.cluster = model::without_variation(plan.cluster);
  planner::Workload workload = plan.workload;
  workload.new_tokens = std::min<std::int64_t>(2, workload.new_tokens);
  planner::GenerationSteps steps(plan, workload);
  model::RunRecorder recorder(plan.cluster, plan.master, true);
  evaluate(plan, evaluator, steps, recorder, false);
  const model::CostModel costs = plan.cost_model();
  return model::find_bottleneck({plan.cluster, costs, plan.master}, steps, recorder.trace());
}

Repetitions read_repetitions(const Options& options, const Plan& plan,
                             const std::string& evaluator) {
  constexpr std::int64_t kMaxSeed = std::int64_t{1} << 62;
  const std::string varies = variation(plan.cluster);
  if (evaluator == "analytic") model::check_analytic(plan.cluster);
  if (!model::varies_by_chance(plan.cluster))
    options.refuse({"seed", "repetitions"}, "on platform '" + plan.cluster.name() +
                                                "', where nothing is left to chance (no "
                                                "tandem:jitter or tandem:loss on a link)");
  return {.varies = !varies.empty(),
          .seed = static_cast<std::uint64_t>(options.integer_or("seed", 1, 0, kMaxSeed)),
          .count = options.integer_or("repetitions", 1, 1, 100000)};
}

// `result` has the first; its environment gets the spread over all of them.
void repeat(const Plan& plan, const Repetitions& repetitions, Result& result) {
  std::map<std::string, std::vector<double>> values;
  const auto add = [&](const model::Metrics& metrics) {
    if (metrics.token_times_s.empty()) {
      values["time of the pass, s"].push_back(metrics.ttft_s);
      return;
    }
    values["time to first token, s"].push_back(metrics.ttft_s);
    values["time of all tokens, s"].push_back(metrics.token_times_s.back());
    const std::vector<double> gaps = metrics.token_latencies_s();
    if (gaps.empty()) return;
    values["token latency, mean of a run, s"].push_back(
        std::accumulate(gaps.begin(), gaps.end(), 0.0) / static_cast<double>(gaps.size()));
    values["token latency, p99 of a run, s"].push_back(model::quantile(gaps, 0.99));
  };
  add(result.metrics);
  for (std::int64_t i = 1; i < repetitions.count; ++i) {
    planner::GenerationSteps steps(plan);
    model::RunRecorder recorder(plan.cluster, plan.master, false);
    sim::replay_seeded(plan.cluster, plan.cost_model(), steps, recorder,
                       repetitions.seed + static_cast<std::uint64_t>(i));
    add(recorder.metrics());
  }
  describe(repetitions, values, result);
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

}  // namespace

int simulate_command(const Arguments& arguments, std::ostream& out) {
  Syntax syntax{
      .command = "simulate",
      .summary = "Predicts the times, memory and traffic of a plan, and what they wait for.",
      .positionals = {"plan.json"},
      .flags = {{"out", "FILE", "write the result file; - prints it instead of the table"},
                {"trace", "FILE", "write the timeline, for ui.perfetto.dev"},
                {"evaluator", "E",
                 "simgrid (links are shared), or analytic (nothing contends) [simgrid]"},
                {"full", "", "evaluate every step, also those that can be shown to go on alike"},
                {"seed", "S", "of the links' jitter and loss [1]"},
                {"repetitions", "R", "simulate with R seeds, from S on, and print the spread [1]"},
                {"json", "", "print the result as JSON"},
                {"tokenizer", "DIR", "model folder, for a workload whose prompts are texts"},
                {"raw-prompt", "", "special tokens written in them (\"</s>\") are plain text"},
                {"schedule", "FILE", "replay the steps of a measured result of many requests"},
                {"quiet", "", "print no table and no progress"}}};
  const std::vector<Flag> more = workload_flags();
  syntax.flags.insert(syntax.flags.end() - 4, more.begin(), more.end());
  Options options(syntax, arguments);
  const Shown show = shown(options);
  const std::string evaluator = options.choice_or("evaluator", "simgrid", {"simgrid", "analytic"});
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
  const Repetitions repetitions = read_repetitions(options, plan, evaluator);
  if (const std::optional<ServedRun> served = served_run(options, plan)) {
    options.refuse({"full"}, "with many requests, whose steps are all evaluated");
    options.settle();
    return simulate_served(plan, *served, {show, evaluator, trace_path, repetitions}, out);
  }
  options.refuse({"tokenizer", "raw-prompt"}, "without '--workload', whose prompts they are for");
  const bool every_step = options.has("full") || trace_path;
  options.settle();

  planner::GenerationSteps generation(plan);
  WithProgress steps(generation, !show.quiet && ::isatty(STDERR_FILENO) == 1);
  model::RunRecorder recorder(plan.cluster, plan.master, trace_path.has_value());
  const std::vector<model::MemoryUse> memory = memory_of(plan, generation, trace_path.has_value());
  for (model::DeviceIndex i = 0; i < plan.cluster.size(); ++i)
    recorder.set_peak_memory(i, memory[static_cast<std::size_t>(i)]);
  if (repetitions.varies) {
    sim::replay_seeded(plan.cluster, plan.cost_model(), steps, recorder, repetitions.seed);
  } else {
    evaluate(plan, evaluator, steps, recorder, !every_step);
  }
  Result result = predicted_result(plan, evaluator, recorder);
  model::set_only_request(result);
  if (repetitions.varies) repeat(plan, repetitions, result);

  if (trace_path) {
    result.trace = trace_reference(*trace_path, show.file);
    write_file(*trace_path, to_perfetto_json(recorder.trace(), "predicted"));
  }
  deliver(show, to_json(result), out);
  if (show.json) {
    out << to_json(result);
  } else if (show.table()) {
    print_result(plan, result, bottleneck_of(plan, evaluator), out);
    if (evaluator == "simgrid") print_network(result, out);
  }
  return 0;
}

}  // namespace tandem::cli
